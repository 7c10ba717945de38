"""`setpredict train --help`: presets, methods and scales; the options of a preset are in its own help."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

PRESET_LINES = {
    "polygons": "regular polygons from the angle of one corner (the paper's opening example)",
    "multisets": "random point sets, auto-encoded",
    "numbering": "number equal elements of a multiset (section 4.1 of the iDSPN paper)",
    "mnist": "digits as point sets, auto-encoded",
    "clevr-box": "bounding boxes in CLEVR's images",
    "clevr-state": "objects with their attributes in CLEVR's images",
    "scenes-box": "bounding boxes in rendered scenes; needs no files",
    "scenes-state": "objects with their attributes in rendered scenes; needs no files",
    "folder": "your own data: --data.folder FOLDER (setpredict data check FOLDER looks at it)",
}
METHOD_LINES = {
    "dspn": "gradient descent on the set, differentiated through all steps",
    "idspn": "the same with implicit differentiation, and more steps",
    "slots": "Slot Attention",
    "transformer": "a transformer with queries, as in DETR",
    "mlp": "a list from an MLP, without an inner loop",
    "lstm": "a list from an LSTM",
    "dense": "one proposal per cell of the image; for images with known places",
    "auto": "the default: dspn; for your own data dspn from a dense head (images with boxes or points), else idspn",
}
SCALE_LINES = {
    "small": "for two CPU cores, ends after minutes (the default)",
    "medium": "clevr-… and scenes-…: 128 pixels and up to 10 objects, for a CPU and two hours",
    "paper": "the papers' sizes and epochs",
}
USAGE = "setpredict train PRESET [--method METHOD] [--scale SCALE] [options]"


def print_overview(console: Console) -> None:
    """Everything that can be chosen before the options."""
    console.print(f"usage: {USAGE}\n", highlight=False, markup=False)
    parts = {"PRESET, the data": PRESET_LINES, "--method METHOD": METHOD_LINES, "--scale SCALE": SCALE_LINES}
    for title, lines in parts.items():
        table = Table(title=title, title_justify="left", title_style="bold", box=None, show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for name, line in lines.items():
            table.add_row(name, line)
        console.print(table, highlight=False)
        console.print()
    closing = [
        "setpredict train PRESET --help lists the options of a preset, with its defaults.",
        "setpredict train --resume runs/NAME continues an interrupted or finished run.",
    ]
    for line in closing:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
