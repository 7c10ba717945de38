"""Weights from files into modules: what does not fit is named and changes nothing."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file, save_model
from torch import nn

from setpredict.core.checksums import Damaged
from setpredict.core.errors import UserError
from setpredict.core.weights import check_header, load_weights, read_header, save_weights


class Tied(nn.Module):
    """Two names for one layer, as an input encoder that is also the decoder's."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 3)
        self.b = self.a
        self.c = nn.Linear(3, 1)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    save_model(Tied(), str(tmp_path / "weights.safetensors"))
    return tmp_path / "weights.safetensors"


def test_tied_weights_are_saved_once_and_loaded_under_both_names(saved):
    torch.manual_seed(0)
    expected = Tied().state_dict()
    torch.manual_seed(1)
    model = Tied()
    load_weights(model, saved)
    assert [name for name, value in model.state_dict().items() if not torch.equal(value, expected[name])] == []


def test_old_names_are_migrated(tmp_path):
    path = tmp_path / "old.safetensors"
    save_file({"old.weight": torch.ones(1, 2), "old.bias": torch.zeros(1)}, path)
    model = nn.ModuleDict({"new": nn.Linear(2, 1)})
    load_weights(model, path, rename=lambda tensors: {k.replace("old.", "new."): v for k, v in tensors.items()})
    assert model.get_parameter("new.weight").tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize(("keep", "dtype"), [(False, torch.float32), (True, torch.float64)])
def test_the_precision_is_the_models_or_the_files(tmp_path, keep, dtype):
    save_file({"weight": torch.ones(1, 2).double(), "bias": torch.zeros(1).double()}, tmp_path / "double.safetensors")
    model = nn.Linear(2, 1)
    load_weights(model, tmp_path / "double.safetensors", keep_precision=keep)
    assert model.weight.dtype == dtype


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"c.bias": None}, r"does not fit the model: missing: c.bias$"),
        ({"d": torch.zeros(1)}, r"does not fit the model: not in this model: d$"),
        ({"c.bias": torch.zeros(2)}, r"of another shape: c.bias is \(2,\), not \(1,\)$"),
        ({f"d{i}": torch.zeros(1) for i in range(7)}, r"not in this model: d0, d1, d2, d3, d4 and 2 more$"),
    ],
)
def test_what_does_not_fit_is_named_and_changes_nothing(tmp_path, change, message):
    model = Tied()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    tensors = {name: value + 1 for name, value in model.state_dict().items() if not name.startswith("b.")} | change
    save_file({k: v for k, v in tensors.items() if v is not None}, tmp_path / "other.safetensors")
    with pytest.raises(UserError, match=message):
        load_weights(model, tmp_path / "other.safetensors")
    assert [name for name, value in model.state_dict().items() if not torch.equal(value, before[name])] == []


def test_missing_and_broken_files_are_named(tmp_path):
    with pytest.raises(UserError, match=r"none.safetensors not found: is .* a saved model\?"):
        load_weights(Tied(), tmp_path / "none.safetensors")
    (tmp_path / "broken.safetensors").write_bytes(b"broken")
    with pytest.raises(UserError, match=r"broken.safetensors is not a readable safetensors file"):
        load_weights(Tied(), tmp_path / "broken.safetensors")


def test_weights_that_are_not_finite_are_named_and_change_nothing(tmp_path):
    model = Tied()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for value in (float("nan"), float("inf"), -float("inf")):
        tensors = {name: value.clone() for name, value in before.items() if not name.startswith("b.")}
        tensors["c.weight"][0, 1] = value
        save_file(tensors, tmp_path / "broken.safetensors")
        with pytest.raises(Damaged, match=r"broken.safetensors has weights that are not finite: c.weight$"):
            load_weights(model, tmp_path / "broken.safetensors")
    assert [name for name, value in model.state_dict().items() if not torch.equal(value, before[name])] == []


def test_a_buffer_may_be_infinite_but_not_nan(tmp_path):
    model = nn.Linear(2, 1)
    model.register_buffer("mask", torch.tensor([0.0, -torch.inf]))
    save_weights(model, tmp_path / "masked.safetensors")
    load_weights(model, tmp_path / "masked.safetensors")
    model.register_buffer("mask", torch.tensor([0.0, torch.nan]))
    save_weights(model, tmp_path / "broken.safetensors")
    with pytest.raises(Damaged, match="not finite: mask"):
        load_weights(model, tmp_path / "broken.safetensors")


def test_integers_in_place_of_numbers_are_named(tmp_path):
    save_file({"weight": torch.ones(1, 2).long(), "bias": torch.zeros(1)}, tmp_path / "whole.safetensors")
    with pytest.raises(UserError, match=r"of another type: weight is torch.int64, not torch.float32$"):
        load_weights(nn.Linear(2, 1), tmp_path / "whole.safetensors")


def test_the_header_has_names_types_and_shapes_without_data(saved):
    header = read_header(saved)
    assert {name: tuple(t.shape) for name, t in header.items()} == {
        "a.weight": (3, 2), "a.bias": (3,), "c.weight": (1, 3), "c.bias": (1,)
    }  # fmt: skip
    assert all(t.is_meta for t in header.values())


def test_a_model_is_compared_with_the_header_before_it_is_allocated(saved):
    def no_change(model: nn.Module):
        return dict

    check_header(Tied, saved, no_change)
    with pytest.raises(UserError, match=r"not in this model: a.bias.*; of another shape|missing: .*not in this model"):
        check_header(lambda: nn.Linear(10**6, 10**6), saved, no_change)  # 4 TB
    with pytest.raises(UserError, match=r"a model of these sizes cannot be built: "):
        check_header(lambda: nn.Linear(10**15, 10**15), saved, no_change)


def test_a_model_that_holds_more_than_its_weights_is_named(saved):
    def with_buffer() -> nn.Module:
        model = Tied()
        model.register_buffer("table", torch.zeros(10**9), persistent=False)
        return model

    with pytest.raises(UserError, match=r"has [\d,]+ bytes, but the model beside it would take 4,000,0"):
        check_header(with_buffer, saved, lambda model: dict)
