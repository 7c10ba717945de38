"""Download a file: resume, retry, verify the checksum, and move it into place only when it is complete."""

from __future__ import annotations

import hashlib
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path

from setpredict.core.errors import UserError
from setpredict.core.paths import build_lock
from setpredict.core.progress import progress

BLOCK = 1 << 16


def download(
    urls: Sequence[str], path: Path, md5: str, *, tries: int = 3, wait: float = 1.0, timeout: float = 15.0
) -> None:
    """Download `path` from the first of `urls` that serves a file with this MD5; a partial download is resumed.

    All URLs are tried in turn, `tries` times, with a pause of `wait` seconds that doubles after each round.
    """
    with build_lock(path):
        if path.exists():  # another process downloaded it
            return
        part = path.with_name(path.name + ".part")
        reason: Exception | str = ""
        for attempt in range(tries):
            for url in urls:
                try:
                    _fetch(url, part, timeout)
                except (OSError, HTTPException) as error:
                    reason = error
                    continue
                found = hashlib.md5(part.read_bytes()).hexdigest()
                if found == md5:
                    part.replace(path)
                    return
                part.unlink()
                reason = f"its MD5 is {found}, expected {md5}"
            if attempt + 1 < tries:
                time.sleep(wait * 2**attempt)
        raise UserError(
            f"could not download {path.name} ({reason}); download {urls[0]} yourself and put it into {path.parent}"
        )


def _fetch(url: str, part: Path, timeout: float) -> None:
    """Append the missing bytes to `part`; raises if the connection ends before the announced length."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        answer = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # no bytes beyond ours: the file is complete, or it is a different one
            return
        raise OSError(f"{url} answered {error.code} {error.reason}") from None
    with answer:
        resumed = answer.status == 206
        length = answer.headers.get("Content-Length")
        total = int(length) + (have if resumed else 0) if length else 0
        with (
            open(part, "ab" if resumed else "wb") as file,
            progress(f"Downloading {part.stem}", total, have if resumed else 0) as advance,
        ):
            while block := answer.read(BLOCK):
                file.write(block)
                advance(len(block))
        if total and part.stat().st_size < total:
            raise OSError(f"the connection to {url} ended after {part.stat().st_size} of {total} bytes")
