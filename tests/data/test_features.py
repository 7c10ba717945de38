"""One-hot columns of the user's numbers are categories."""

import json
from pathlib import Path

import numpy as np
import pytest

from setpredict.data.features import one_hot_columns
from setpredict.data.like import open_like
from setpredict.data.locate import open_path
from setpredict.sets import Sets


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([[0.5, 1, 0, 0], [0.5, 0, 1, 0], [1, 0, 0, 1]], ((1, 4),)),
        ([[1, 0, 0.5, 0, 1], [0, 1, 0.7, 0, 1], [0, 1, 0, 1, 0]], ((0, 2), (3, 5))),
        ([[1, 0], [1, 0]], ()),  # constant
        ([[1, 1], [0, 1]], ()),
        ([[0.2, 0.8], [0.4, 0.6]], ()),
        ([[np.nan, 0, 1], [np.nan, 1, 0]], ((1, 3),)),
        ([[1, 0]], ()),
    ],
)
def test_one_hot_columns(rows: list, expected: tuple):
    assert one_hot_columns(np.array(rows, float)) == expected


def all_windows(values: np.ndarray) -> tuple[tuple[int, int], ...]:
    """One-hot runs by comparing the rows of every window with unit vectors: the longest first, then the leftmost."""
    M, C = values.shape
    windows = [(first, first + width) for width in range(C, 1, -1) for first in range(C - width + 1)]
    found: list[tuple[int, int]] = []
    for first, end in windows if M > 1 else ():
        rows = [tuple(row) for row in values[:, first:end].tolist()]
        unit = {tuple(row) for row in np.eye(end - first).tolist()}
        varies = all(len(set(column)) == 2 for column in zip(*rows))
        if set(rows) <= unit and varies and not any(a < end and first < b for a, b in found):
            found.append((first, end))
    return tuple(sorted(found))


def random_columns(rng: np.random.Generator) -> np.ndarray:
    """Some one-hot columns among others of zeros and ones, in places with another number."""
    M, C = rng.integers(1, 6), rng.integers(1, 9)
    values = (rng.random((M, C)) < rng.random()).astype(float)
    for _ in range(rng.integers(3)):
        first, end = sorted(rng.choice(C + 1, 2, replace=False))
        values[:, first:end] = np.eye(end - first)[rng.integers(end - first, size=M)]
    if rng.random() < 0.5:
        values[rng.integers(M), rng.integers(C)] = rng.choice([0.5, 2, np.nan])
    return values


def test_one_hot_columns_are_what_all_windows_give():
    rng, groups = np.random.default_rng(0), 0
    for _ in range(2000):
        values = random_columns(rng)
        found = one_hot_columns(values)
        assert found == all_windows(values), values
        groups += len(found)
    assert groups > 200


def test_rows_are_only_summed_where_they_may_be_one_hot(monkeypatch: pytest.MonkeyPatch):
    """Of the 780 windows, at most one per first column has as many ones as there are rows."""
    values = np.random.default_rng(0).integers(2, size=(300, 40)).astype(float).view(Counted)
    monkeypatch.setattr(Counted, "summed", 0)
    assert one_hot_columns(values) == ()
    assert Counted.summed <= 1 + 40


class Counted(np.ndarray):
    """An array that counts how often it is summed."""

    summed = 0

    def sum(self, *args, **kwargs):
        Counted.summed += 1
        return super().sum(*args, **kwargs)


def atoms(folder: Path, kinds: int, shift: float = 0.0) -> Path:
    """Elements of a position and a one-hot kind, each sample its own target."""
    rows = [[[i + shift, 2.0 * j, *np.eye(3)[(i + j) % kinds].tolist()] for j in range(1 + i % 3)] for i in range(12)]
    folder.mkdir(exist_ok=True)
    for name in ("train", "val"):
        text = "\n".join(json.dumps({"input": r, "set": r}) for r in rows)
        (folder / f"{name}.jsonl").write_text(text)
    (folder / "task.json").write_text(json.dumps({"features": ["x", "y", "C", "H", "O"]}))
    return folder


def test_they_become_a_group_and_keep_their_place(tmp_path: Path):
    task = open_path(atoms(tmp_path, 3))
    assert task.groups == {"category": (2, 5)}
    assert task.categories == {"category": ("C", "H", "O")}
    assert [task.feature_names[i] for i in task.numbers] == ["x", "y"]
    batch = next(iter(task.loader("val", 12)))
    assert isinstance(batch.input, Sets)
    assert batch.target.elements.equal(batch.input.elements)
    assert task.auto_encodes
    assert task.describe(batch.target.elements[4, 1]) == "(4.00, 2.00) O"


@pytest.mark.parametrize("kinds", [1, 2])
def test_other_data_may_lack_some_categories(tmp_path: Path, kinds: int):
    like = open_path(atoms(tmp_path / "a", 3))
    other = open_like(atoms(tmp_path / "b", kinds, shift=0.5), like)
    batch = next(iter(other.loader("val", 12)))
    for i, elements in enumerate(batch.target.elements):
        for j in range(1 + i % 3):
            assert other.describe(elements[j]) == f"({i + 0.5:.2f}, {2 * j:.2f}) {'CH'[(i + j) % kinds]}"
    assert isinstance(batch.input, Sets)
    assert batch.target.elements.allclose(batch.input.elements, atol=1e-6)
