"""`setpredict export`: a trained model as an ONNX file."""

from __future__ import annotations

from pathlib import Path

from tyro.conf import Positional

from setpredict.core.errors import UserError


def export(
    model: Positional[Path],
    out: Positional[Path],
    steps: int | None = None,
    trajectory: bool = False,
    allow_own_code: bool = False,
) -> None:
    """Write a trained model as an ONNX file, which runs without Python and PyTorch.

    Args:
        model: The run's folder, or the name of a shipped model such as points-idspn.
        out: The file to write, such as model.onnx.
        steps: Inner steps (None: as trained).
        trajectory: Have the file give the sets of all steps instead of the last one alone.
        allow_own_code: Import the run's own classes (module:Class) to say why they cannot be exported.
    """
    from setpredict.runs.loaded import load

    if out.suffix != ".onnx":
        raise UserError(f"the file must end in .onnx, got {out}")
    loaded = load(model, allow_own_code=allow_own_code)
    loaded.model.to_onnx(out, steps=steps, trajectory=trajectory, task=loaded.task, name=loaded.name)
    print(f"Written: {out} ({out.stat().st_size / 1e6:.1f} MB)")
