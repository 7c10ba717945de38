"""The numbers that the papers report, to compare ours with: mean and standard deviation over six runs."""

from __future__ import annotations

from pathlib import Path

from setpredict.config import DataConfig

Number = tuple[float, float | None]
Rows = dict[str, dict[str, Number]]


def _rows(heads: str, text: str) -> Rows:
    """Parse a table with lines of the form "name: mean±std …"."""
    rows: Rows = {}
    for line in text.strip().splitlines():
        name, _, cells = line.strip().partition(": ")
        numbers = [(float(mean), float(spread) if spread else None) for mean, _, spread in map(_split, cells.split())]
        rows[name] = dict(zip(heads.split(), numbers))
    return rows


def _split(cell: str) -> tuple[str, str, str]:
    return cell.partition("±")


MNIST = _rows(  # Table 1: Chamfer loss × 1000
    "chamfer",
    """
    MLP: 0.21±0.18
    LSTM: 0.49±0.19
    DSPN (all), 10 steps: 0.09±0.01
    """,
)
BOXES = _rows(  # from the appendix, whose evaluation is corrected; DSPN with its loss on the last step and on all steps
    "AP50 AP60 AP70 AP80 AP90",
    """
    MLP: 87.6±2.4 73.6±3.9 48.1±5.0 15.1±2.8 0.1±0.1
    LSTM: 85.8±2.5 70.0±2.8 43.9±2.4 13.3±1.5 0.2±0.0
    DSPN (last), 10 steps: 94.0±0.4 90.6±0.6 82.2±1.4 58.9±3.4 16.0±2.4
    DSPN (last), 20 steps: 98.0±0.5 94.4±0.9 83.0±1.6 55.0±3.3 12.3±2.6
    DSPN (last), 30 steps: 95.9±2.1 89.4±3.3 74.8±3.9 46.1±3.4 9.4±1.9
    DSPN (all), 10 steps: 97.1±1.1 91.4±2.8 73.4±5.1 35.4±4.8 3.3±1.3
    DSPN (all), 20 steps: 97.5±1.0 90.8±2.6 69.4±4.9 31.3±4.7 2.9±1.2
    DSPN (all), 30 steps: 97.1±1.0 88.6±2.9 64.4±5.3 27.7±5.2 2.6±1.2
    """,
)
STATES = _rows(  # Table 3 and the appendix; iDSPN is evaluated differently, so not strictly comparable
    "AP∞ AP1 AP0.5 AP0.25 AP0.125",
    """
    MLP: 3.6±0.5 1.5±0.4 0.8±0.3 0.2±0.1 0.0±0.0
    LSTM: 4.0±1.9 1.8±1.2 0.9±0.5 0.2±0.1 0.0±0.0
    DSPN (last), 10 steps: 72.8±2.3 59.2±2.8 39.0±4.4 12.4±2.5 1.3±0.4
    DSPN (last), 20 steps: 84.0±4.5 80.0±4.9 57.0±12.1 16.6±9.0 1.6±0.9
    DSPN (last), 30 steps: 85.2±4.8 81.1±5.2 47.4±17.6 10.8±9.0 0.6±0.7
    DSPN (all), 10 steps: 76.4±2.5 69.6±2.8 53.7±4.3 18.2±3.7 2.2±0.6
    DSPN (all), 20 steps: 80.9±1.9 77.3±2.3 63.9±4.1 22.7±4.4 2.7±0.6
    DSPN (all), 30 steps: 82.5±1.7 79.8±2.0 66.8±4.1 23.6±4.6 2.8±0.8
    iDSPN, 40 steps: 98.8 98.5 98.2 95.8 76.9
    """,
)
TABLES: dict[str, Rows] = {"mnist": MNIST, "clevr-box": BOXES, "clevr-state": STATES}


def beside(data: DataConfig) -> Rows:
    """The paper's table for the data of a run; empty if the paper does not use that data.

    Data in CLEVR's layout counts as CLEVR only in a folder of that name.
    """
    if data.name == "clevr" and (data.folder is None or Path(data.folder).name.startswith("CLEVR")):
        return TABLES[f"clevr-{data.target}"]
    return MNIST if data.name == "mnist" else {}
