"""Predicted set sizes by true set size, as a confusion matrix."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from setpredict.sets import Sets

MOST_BINS = 12


def size_confusion(predicted: Sets, target: Sets) -> tuple[Int[np.ndarray, "K K"], list[str]]:
    """Counts of (true size, predicted size), and the label of each size; many sizes are grouped into ranges.

    >>> import torch
    >>> predicted = Sets(torch.zeros(3, 2, 1), torch.tensor([[0.9, 0.2], [0.8, 0.9], [0.9, 0.7]]))
    >>> size_confusion(predicted, Sets.from_list([[[0.0]], [[0.0]], [[0.0], [0.0]]]))
    (array([[1, 1],
           [0, 1]]), ['1', '2'])
    """
    true, found = target.sizes.cpu().numpy(), predicted.sizes.cpu().numpy()
    low, high = int(min(true.min(), found.min())), int(max(true.max(), found.max()))
    width = -(-(high - low + 1) // MOST_BINS)
    bins = (high - low) // width + 1
    counts = np.zeros((bins, bins), np.int64)
    np.add.at(counts, ((true - low) // width, (found - low) // width), 1)
    firsts = [low + width * i for i in range(bins)]
    names = [str(f) if width == 1 else f"{f} to {min(f + width - 1, high)}" for f in firsts]
    return counts, names


def confusion_table(predicted: Sets, target: Sets) -> str:
    """The confusion matrix as an HTML table; the shade of a cell is its fraction of the row."""
    counts, names = size_confusion(predicted, target)
    heads = "".join(f"<th scope='col'>{name}</th>" for name in names)
    rows = []
    for name, row in zip(names, counts):
        cells = "".join(_cell(int(count), int(row.sum())) for count in row)
        rows.append(f"<tr><th scope='row'>{name}</th>{cells}</tr>")
    return (
        "<div class='wide'><table><caption>Rows: the true size. Columns: the predicted size (masks above one half)."
        f"</caption><thead><tr><td></td>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cell(count: int, total: int) -> str:
    part = count / total if total else 0.0
    return f"<td class='heat' style='background:rgba(0,114,178,{0.75 * part:.2f})'>{count or ''}</td>"
