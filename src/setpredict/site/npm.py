"""onnxruntime-web from npm: the two files of it that a page needs."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from setpredict.core.errors import UserError

PACKAGE = "onnxruntime-web@1.30.0"
FILES = {"ort.wasm.bundle.min.mjs": "ort.js", "ort-wasm-simd-threaded.wasm": "ort.wasm"}
"""The files of the package and their names in the site: not every server knows what an .mjs is."""


def fetch_runtime() -> dict[str, bytes]:
    """The contents of ort.js and ort.wasm."""
    npm = shutil.which("npm")
    if npm is None:
        raise UserError("npm not found: it fetches onnxruntime-web; install Node.js, which includes it")
    with TemporaryDirectory() as temporary:
        command = [npm, "pack", "--silent", "--pack-destination", temporary, PACKAGE]
        done = subprocess.run(command, cwd=temporary, capture_output=True, text=True)
        archives = list(Path(temporary).glob("*.tgz"))
        if done.returncode or len(archives) != 1:
            lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
            raise UserError(f"npm could not fetch {PACKAGE}: {lines[-1]}")
        found = {}
        with tarfile.open(archives[0]) as archive:
            for name, ours in FILES.items():
                try:
                    content = archive.extractfile(f"package/dist/{name}")
                except KeyError:
                    content = None
                if content is None:
                    raise UserError(f"{PACKAGE} has no file dist/{name}")
                found[ours] = content.read()
        return found
