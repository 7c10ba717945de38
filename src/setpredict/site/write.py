"""The page as a folder of files: the served page's own, the models as ONNX files, and onnxruntime-web to run them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from setpredict.core.errors import UserError
from setpredict.core.files import atomic, write_text
from setpredict.export import onnx_file  # noqa: F401 (what it needs must be there before anything is written)
from setpredict.runs.loaded import load
from setpredict.runs.shipped import shipped
from setpredict.site.npm import fetch_runtime
from setpredict.web.catalog import Served
from setpredict.web.server import STATIC, static_files

TABS = ("points", "digits", "polygons")
LEFT_OUT = ("index.html", "docs.html", "docs.js", "api.js")
"""Files of the served page that are elsewhere in a site, or not needed without a server."""
INDEX = "models.json"
RUNTIME = "static/ort.js"
"""Written first: a folder that has it is a site, perhaps an incomplete one."""


def write_site(out: Path, tell: Callable[[str], None] = lambda line: None) -> None:
    """Write the site; files of a former one are replaced.

    Args:
        out: The folder, a new or empty one or a former site.
        tell: Called with what is being done.
    """
    models = out / "models"
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; the site is a folder")
    if out.is_dir() and any(out.iterdir()) and not (out / RUNTIME).is_file():
        raise UserError(f"{out} has files that are not of a site; give a new folder")
    tell("Fetching onnxruntime-web from npm …")
    files = {f"static/{name}": content for name, content in fetch_runtime().items()}
    files |= {f"static/{name}": path.read_bytes() for name, path in static_files().items() if name not in LEFT_OUT}
    files["index.html"] = (STATIC / "index.html").read_bytes()
    files["static/api.js"] = (Path(__file__).parent / "api.js").read_bytes()
    for name, content in files.items():
        with atomic(out / name) as temporary:
            temporary.write_bytes(content)
    infos = []
    for tab in TABS:
        served = [Served(name, tab, load(name), "test") for name in shipped() if name.partition("-")[0] == tab]
        steps = 2 * max(model.steps for model in served)  # the page plays to twice the trained steps
        for model in served:
            tell(f"Exporting {model.name} …")
            taken = steps if model.steps else None
            path = models / f"{model.name}.onnx"
            model.model.to_onnx(path, steps=taken, trajectory=True, task=model.task, name=model.name)
            infos.append(model.info().model_copy(update={"samples": 0, "max_steps": taken}))
    write_text(models / INDEX, json.dumps([info.model_dump() for info in infos]) + "\n")
