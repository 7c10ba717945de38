"""Code of the user's own (an encoder or decoder module:Class): imported only with the user's permission.

Permission is the option --allow-own-code, or a record that this user trained the run on this machine. Training writes a
random token into the run's folder; the user's cache folder has the token with the path of the run, the names of the
classes, and the folder in which they were found. A copied or downloaded run does not match any record.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from setpredict.config import Experiment, ModelConfig
from setpredict.core.errors import UserError
from setpredict.core.files import read_json, write_text
from setpredict.core.paths import cache_folder
from setpredict.runs.folder import RunFolder


def own_kinds(config: Experiment | ModelConfig) -> list[str]:
    """The classes module:Class that a model is made of, beside the built-in ones."""
    return [kind for kind in (config.encoder.kind, config.decoder.kind) if ":" in kind]


def record_training(folder: RunFolder, kinds: Sequence[str]) -> None:
    """Remember that this user trains the run with these classes, if the cache folder can be written."""
    if not kinds or _recorded(folder, kinds) is not None:
        return
    token = secrets.token_hex(16)
    found = {"run": str(folder.path.resolve()), "kinds": list(kinds), "imported_from": str(Path.cwd())}
    with suppress(OSError):
        write_text(_record_path(token), json.dumps(found, indent=2) + "\n")
        folder.write_token(token)


def allow_own_code(folder: RunFolder, kinds: Sequence[str], allowed: bool) -> None:
    """Make these classes importable if the user allows it or has trained the run here; a UserError otherwise.

    Args:
        folder: The run that asks for the classes.
        kinds: The classes module:Class; with none of them, nothing happens.
        allowed: Whether the user allows it. They may then be in the current folder.
    """
    if not kinds:
        return
    found = _recorded(folder, kinds)
    if found is None and not allowed:
        raise UserError(
            f"{folder} asks for the code {' and '.join(map(repr, kinds))}, and you did not train it on this machine; "
            "if you trust it, add --allow-own-code (in Python: allow_own_code=True)"
        )
    make_importable(Path(found["imported_from"]) if found else Path.cwd())


def make_importable(folder: Path) -> None:
    """Let modules of a folder be imported, where no other module has their name."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _recorded(folder: RunFolder, kinds: Sequence[str]) -> dict[str, Any] | None:
    """The record of the training of this run with (at least) these classes."""
    token = folder.read_token()
    if token is None:
        return None
    try:
        found = read_json(_record_path(token))
    except (UserError, OSError):
        return None
    fits = isinstance(found, dict) and {"run", "kinds", "imported_from"} <= found.keys()
    if not fits or found["run"] != str(folder.path.resolve()) or not set(kinds) <= set(found["kinds"]):
        return None
    return found


def _record_path(token: str) -> Path:
    """A token comes from a file of unknown origin and must not become part of a path; its hash may."""
    return cache_folder() / "trained" / f"{sha256(token.encode()).hexdigest()}.json"
