"""Weights from files into modules: what does not fit is named and changes nothing."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file, save_model
from torch import nn

from setpredict.core.errors import UserError
from setpredict.core.weights import load_weights


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
