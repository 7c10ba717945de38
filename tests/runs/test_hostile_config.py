"""Hostile config.json files beside valid weights: a clear error, before anything large is allocated."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from setpredict.config import DecoderConfig, EncoderConfig, InputConfig, ModelConfig
from setpredict.core.errors import UserError
from setpredict.model import SetPredictor
from setpredict.runs.shipped import shipped
from setpredict.runs.train import train_run

MILLION, TRILLION = 10**6, 10**12
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "wide layers": ({"encoder": {"hidden": [30000, 30000]}}, "does not fit the model: .*of another shape"),
    "wide decoder": ({"decoder": {"kind": "mlp", "hidden": [30000, 30000]}}, "does not fit the model"),
    "wide lstm": ({"decoder": {"kind": "lstm", "hidden": [MILLION]}}, "does not fit the model"),
    "wide prediction": ({"decoder": {"initial": "predicted", "hidden": [MILLION] * 2}}, "does not fit the model"),
    "large sets": ({"max_size": TRILLION}, "max_size must be from 1 to 100000, got 1000000000000"),
    "rather large sets": ({"max_size": 100_000}, "of another shape: decoder.initial.values"),
    "large random sets": (
        {"max_size": 100_000, "features": 100, "decoder": {"initial": "random"}},
        "smaller than a random initial set of 100000 × 100 numbers",
    ),
    "large sets of many features": (
        {"max_size": 100_000, "features": 10_000},
        "max_size × features must be at most 10000000, got 100000 × 10000",
    ),
    "many pairs": (
        {"max_size": 10_000, "encoder": {"kind": "relation", "pool": "fspool-free"}},
        "does not fit the model",
    ),
    "too many pairs": ({"max_size": 50_000, "encoder": {"kind": "relation"}}, "max_size must be from 1 to 10000"),
    "large input sets": ({"input": {"max_size": TRILLION, "shared": False}}, "input.max_size must be from 0 to 10000"),
    "long codes": ({"latent": MILLION}, "does not fit the model"),
    "longer codes": ({"latent": TRILLION}, "latent must be from 1 to 1000000"),
    "many features": ({"features": MILLION, "input": {"size": MILLION}}, "does not fit the model"),
    "long vectors": ({"input": {"kind": "vector", "size": TRILLION}}, "input.size must be from 1 to 1000000"),
    "large images": ({"input": {"kind": "conv", "size": MILLION}}, "input.size must be from 1 to 4096"),
    "wide images": ({"input": {"kind": "resnet", "size": 4096, "width": MILLION}}, "does not fit|cannot be built"),
    "many layers": ({"encoder": {"hidden": [1] * 10_000}}, "the number of layers in encoder.hidden must be"),
    "many pieces": ({"encoder": {"pieces": MILLION}}, "does not fit the model"),
    "many steps": ({"decoder": {"solver": {"steps": 10**9}}}, "decoder.solver.steps must be from 0 to 10000"),
    "negative": ({"input": {"size": -5}}, "input.size must be from 1 to"),
    "not a range": ({"groups": {"a": [1]}}, "groups\\['a'\\] must be a range of the 2 features"),
    "not a number": ({"decoder": {"mask_bias": float("nan")}}, "decoder.mask_bias must be a number, got nan"),
}
CHILD = """
import json, resource, sys
from setpredict.core.errors import UserError
from setpredict.model import SetPredictor
SetPredictor.from_pretrained(sys.argv[1])  # whatever the first use allocates
before, said = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, {}
for folder in sys.argv[2:]:
    try:
        SetPredictor.from_pretrained(folder)
        said[folder] = "loaded"
    except UserError as e:
        said[folder] = str(e)
    except BaseException as e:
        said[folder] = f"{type(e).__name__}: {e}"
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    said[folder] = [said[folder], more]
print(json.dumps(said))
"""


def merged(values: dict, change: dict) -> dict:
    def has_fields(name: str) -> bool:
        return isinstance(values.get(name), dict) and name != "groups"

    return {**values, **{k: merged(values[k], v) if has_fields(k) else v for k, v in change.items()}}


def write(folder: Path, good: Path, change: dict) -> Path:
    folder.mkdir()
    (folder / "model.safetensors").write_bytes((good / "model.safetensors").read_bytes())
    config = json.loads((good / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(merged(config, change)))
    return folder


@pytest.fixture
def good(tmp_path) -> Path:
    SetPredictor.from_config(ModelConfig(5, 2)).save_pretrained(tmp_path / "good")
    return tmp_path / "good"


@pytest.mark.parametrize("case", CASES)
def test_a_hostile_configuration_is_named(good, tmp_path, case):
    change, message = CASES[case]
    with pytest.raises(UserError, match=message) as raised:
        SetPredictor.from_pretrained(write(tmp_path / "bad", good, change))
    assert "\n" not in str(raised.value)


@pytest.mark.skipif(sys.platform != "linux", reason="measures memory in Linux's units")
def test_nothing_large_is_allocated(good, tmp_path):
    """The weights have 0.35 MB."""
    folders = {case: write(tmp_path / str(i), good, change) for i, (case, (change, _)) in enumerate(CASES.items())}
    command = [sys.executable, "-c", CHILD, str(good), *map(str, folders.values())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    more = {case: said[str(folder)][1] // 1024 for case, folder in folders.items()}  # MB, at most so far
    assert max(more.values()) < 60, more
    assert "loaded" not in [text for text, _ in said.values()]


@pytest.mark.parametrize("text", ["[" * 100_000, '{"max_size": ' + "9" * 5000 + "}", "\x00", "null", "[]", "3"])
def test_json_that_is_no_configuration_is_named(good, text):
    (good / "config.json").write_text(text)
    with pytest.raises(UserError, match=r"config.json"):
        SetPredictor.from_pretrained(good)


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_model_has_the_same_bits_as_one_that_is_built_first(name):
    """As before the shapes were compared: build, then fill."""
    from safetensors.torch import load_file

    from setpredict.model import migrate_weights, read_config

    folder = shipped()[name]
    torch.manual_seed(0)
    expected = SetPredictor.from_config(read_config(folder / "config.json"))
    expected.load_state_dict(migrate_weights(expected, load_file(folder / "model.safetensors")), strict=False)
    after = torch.random.get_rng_state()
    torch.manual_seed(0)
    loaded = SetPredictor.from_pretrained(folder)
    assert torch.equal(torch.random.get_rng_state(), after), "loading draws other random numbers"
    buffers = {n for n, _ in loaded.named_buffers()} ^ {n for n, _ in expected.named_buffers()}
    assert not buffers
    for ours, theirs in zip((*loaded.parameters(), *loaded.buffers()), (*expected.parameters(), *expected.buffers())):
        assert not ours.is_meta
        assert torch.equal(ours, theirs)


def test_every_kind_of_model_can_be_compared_without_data(tmp_path):
    """Each part can be built on the device "meta", and the loaded model is on the CPU with all of its buffers."""
    inputs = [InputConfig("vector", 6), InputConfig("conv", 64), InputConfig("resnet", 64, depth=10, width=2)]
    inputs.append(InputConfig("set", 2))
    decoders = [DecoderConfig(initial=kind) for kind in ("learned", "fixed", "random", "predicted")]
    decoders += [DecoderConfig(kind) for kind in ("mlp", "lstm")]
    dense = [DecoderConfig("dense"), DecoderConfig(initial="dense", step_scale="learned")]
    models = [(given, decoder) for given in inputs for decoder in decoders]
    models += [(InputConfig("conv", 64, dense=True), decoder) for decoder in dense]
    for encoder in (EncoderConfig(), EncoderConfig("relation", pool="fspool-free", mask_sum=True)):
        for i, (given, decoder) in enumerate(models):
            config = ModelConfig(4, 2, latent=8, input=given, encoder=encoder, decoder=decoder)
            folder = tmp_path / f"{encoder.kind}-{i}"
            SetPredictor.from_config(config).save_pretrained(folder)
            loaded = SetPredictor.from_pretrained(folder)
            assert {t.device.type for t in (*loaded.parameters(), *loaded.buffers())} == {"cpu"}


@pytest.mark.parametrize(
    ("hidden", "message"),
    [((300_000, 300_000), r"has 3\d\d GB of weights, more than this machine"), ((10**9,), "must be")],
)
def test_a_training_of_a_model_beyond_the_memory_is_named_before_anything_is_written(tiny, run_folder, hidden, message):
    tiny.encoder = EncoderConfig(hidden=hidden)
    with pytest.raises(UserError, match=message):
        train_run(tiny, run_folder, console=Console(quiet=True))
    assert not run_folder.exists()
