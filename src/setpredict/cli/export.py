"""`setpredict export` and `setpredict site`: models that run without Python."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from setpredict.core.errors import UserError, not_installed


def export(
    model: Positional[Path],
    out: Positional[Path],
    steps: int | None = None,
    trajectory: bool = False,
    precision: Literal["float32", "float64"] = "float32",
) -> None:
    """Write a trained model as an ONNX file, which runs without Python and PyTorch.

    Args:
        model: The run's folder, or the name of a shipped model such as points-idspn.
        out: The file to write, such as model.onnx.
        steps: Inner steps (None: as trained).
        trajectory: Have the file give the sets of all steps instead of the last one alone.
        precision: Of all numbers in the file, inputs and outputs included. In float64, sets are those of PyTorch in
            float64 to 1e-6; in float32, rounding can move some elements (docs/export.md). Not for images.
    """
    from setpredict.runs.loaded import load, own_classes

    if out.suffix != ".onnx":
        raise UserError(f"the file must end in .onnx, got {out}")
    for own in own_classes(model):
        raise UserError(f"{model} has code of its own, {own}; only built-in encoders and decoders can be exported")
    loaded = load(model)
    if precision == "float64":
        if loaded.task.input_kind == "image":
            raise UserError(
                f"{model} takes images, and onnxruntime has no convolutions in float64: leave out --precision"
            )
        loaded.model.double()
    loaded.model.to_onnx(out, steps=steps, trajectory=trajectory, task=loaded.task, name=loaded.name)
    print(f"Written: {out} ({out.stat().st_size / 1e6:.1f} MB)")


def site(out: Positional[Path]) -> None:
    """Write the web page as a folder of files: points, digits and polygons, decoded in the browser without a server.

    Any web server can serve the folder, such as python -m http.server -d OUT. npm fetches onnxruntime-web.

    Args:
        out: The folder to write.
    """
    try:
        from setpredict.site.write import write_site
    except ModuleNotFoundError as e:
        raise not_installed("the site", e, "web,export") from None

    write_site(out, print)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"Written: {out} ({size / 1e6:.0f} MB). Try it: python -m http.server -d {out}")
