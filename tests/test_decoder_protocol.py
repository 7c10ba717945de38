"""A user's own iterative decoder, which knows nothing of DSPN, goes through everything: training, evaluation at several
steps, prediction, figures, the report and the web page."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import torch

from setpredict.cli.main import run
from setpredict.config import DecoderConfig, InputConfig, ModelConfig
from setpredict.core.errors import UserError
from setpredict.decoders import DSPN, Decoder, LSTMDecoder, MLPDecoder
from setpredict.encoders import DeepSetEncoder
from setpredict.model import SetPredictor
from setpredict.runs.loaded import load
from setpredict.web.catalog import load_catalog
from tests.web.served import Running

MODULE = '''
"""T refinements of a set by a small network on every element."""

import torch
from torch import nn

from setpredict import MLPDecoder, Prediction


class Refine(nn.Module):
    steps, needs, set_encoder = 3, MLPDecoder.needs, None

    def __init__(self, latent, max_size, features, variable):
        super().__init__()
        self.shape = (max_size, features + 1)
        self.first = nn.Linear(latent, max_size * (features + 1))
        self.change = nn.Sequential(nn.Linear(latent + features + 1, 16), nn.ReLU(), nn.Linear(16, features + 1))

    def forward(self, code, *, steps=None, keys=None):
        z = code.vector
        sets = [self.first(z).unflatten(1, self.shape)]
        for _ in range(self.steps if steps is None else steps):
            inputs = torch.cat([sets[-1], z[:, None].expand(-1, self.shape[0], -1)], dim=-1)
            sets.append(sets[-1] + 0.5 * self.change(inputs))
        sets = torch.stack(sets)
        return Prediction(sets[..., :-1], sets[..., -1].sigmoid())


class WithLoss(Refine):
    """Also measures a representation loss along the trajectory, but no gradient norms."""

    def forward(self, code, *, steps=None, keys=None):
        prediction = super().forward(code, steps=steps, keys=keys)
        prediction.repr_loss = prediction.elements.detach().square().mean(dim=(2, 3))
        return prediction

    def target_loss(self, target, code):
        return code.vector.square().mean(dim=1)


class NoSteps(nn.Module):
    needs, set_encoder = MLPDecoder.needs, None

    def __init__(self, latent, max_size, features, variable):
        super().__init__()


class Nothing(nn.Module):
    def __init__(self, latent, max_size, features, variable):
        super().__init__()


class Sound(Refine):
    needs = ("sound",)


class Tokens(nn.Module):
    steps, needs, set_encoder = 0, ("tokens",), None

    def __init__(self, latent, max_size, features, variable, channels):
        super().__init__()
        self.shape = (max_size, features + 1)
        self.output = nn.Linear(channels, max_size * (features + 1))

    def forward(self, code, *, steps=None, keys=None):
        sets = self.output(code.tokens.mean(dim=1)).unflatten(1, self.shape)[None]
        return Prediction(sets[..., :-1], sets[..., -1])


class Declared(Tokens):
    @property
    def needs(self):
        return "tokens"
'''


@pytest.fixture(scope="module")
def module(tmp_path_factory) -> Iterator[Path]:
    """A folder with the user's module, which can be imported."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "own_refine.py").write_text(MODULE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield folder
    sys.modules.pop("own_refine", None)


@pytest.fixture(scope="module", params=["Refine", "WithLoss"])
def trained(request, module: Path) -> Path:
    """A run that `setpredict train` made."""
    options = ["--decoder.kind", f"own_refine:{request.param}", "--latent", "8", "--encoder.hidden", "8"]
    options += ["--data.points", "4", "--data.variable", "--data.train", "32", "--data.val", "8", "--data.test", "12"]
    options += ["--max-steps", "6", "--val-every", "3", "--log-every", "1", "--batch-size", "8", "--lr", "0.01"]
    options += ["--threads", "1", "--loss.masks", "feature"]
    assert run(["train", "multisets", *options, "--out", str(module), "--name", request.param]) == 0
    return module / request.param


def test_built_in_decoders_are_decoders():
    for decoder in (DSPN(DeepSetEncoder(2, 8, 4)), MLPDecoder(8, 4, 2), LSTMDecoder(8, 4, 2)):
        assert isinstance(decoder, Decoder), type(decoder).__name__
        assert decoder(torch.zeros(3, 8)).steps == decoder.steps


def test_training_logs_the_first_and_the_last_set(trained):
    rows = (trained / "log.csv").read_text().splitlines()
    assert {"set_Y0", "set_YT", "loss"} <= set(rows[0].split(","))
    assert ("repr" in rows[0].split(",")) == (trained.name == "WithLoss")
    assert len(list((trained / "pictures").iterdir())) == 2
    assert json.loads((trained / "config.json").read_text())["decoder"]["kind"] == f"own_refine:{trained.name}"


def test_the_loaded_run(trained):
    loaded = load(trained)
    assert (loaded.method, loaded.steps) == (trained.name, 3)
    assert loaded.model(loaded.model.prepare([[[0.1, 0.2]]]), steps=7).steps == 7


def test_evaluation_at_several_steps(trained):
    assert run(["evaluate", str(trained), "--steps", "0", "3", "9"]) == 0
    rows = json.loads((trained / "evaluation-test.json").read_text())
    assert [row["steps"] for row in rows] == [3, 0, 9]  # the trained one first
    assert [row["samples"] for row in rows] == [12] * 3
    assert len({row["metrics"]["hungarian"] for row in rows}) == 3, "the steps have no effect"
    assert all("steps_taken" not in row["metrics"] for row in rows)


def test_prediction(trained, capsys):
    answers = {}
    for steps in (None, 0, 3, 5):
        words = [] if steps is None else ["--steps", str(steps)]
        assert run(["predict", str(trained), "[[0.1, 0.2], [0.3, 0.4]]", "--json", "--threshold", "-1", *words]) == 0
        answers[steps] = json.loads(capsys.readouterr().out)["set"]
    assert answers[None] == answers[3]
    assert answers[0] != answers[3] != answers[5]
    assert len(answers[0]) == 4


def test_figures(trained):
    assert run(["plot", str(trained), "--samples", "0", "1", "--steps", "0", "1", "3", "8"]) == 0
    files = {file.name: file.stat().st_size for file in (trained / "plots").iterdir()}
    assert {"progression.png", "progression.pdf", "losses.png", "losses.pdf"} <= set(files)
    assert min(files.values()) > 1000


def test_the_report(trained):
    assert run(["evaluate", str(trained), "--steps", "3", "6"]) == 0
    assert run(["report", str(trained)]) == 0
    page = (trained / "report.html").read_text(encoding="utf-8")
    assert trained.name in page
    assert "own_refine" in page
    assert page.count("<img") >= 2


def test_the_web_page(trained):
    models = load_catalog([trained])
    name = f"run-{trained.name}"
    with Running({name: models[name]}) as address, httpx.Client(base_url=address, timeout=60) as client:
        info = client.get("/api/models").json()[0]
        assert (info["name"], info["method"], info["trained_steps"]) == (name, trained.name, 3)
        for body, steps in (({}, 3), ({"steps": 0}, 0), ({"steps": 8}, 8)):
            answer = client.post(f"/api/{name}/decode", json={"sample": 1, **body})
            assert answer.status_code == 200, answer.text
            found = answer.json()
            assert (found["steps"], len(found["elements"]), len(found["mask"])) == (steps, steps + 1, steps + 1)
            assert (found["repr_loss"] is None) == (trained.name == "Refine")
        loaded = load(trained)
        with torch.no_grad():
            expected = loaded.model(loaded.model.prepare([[[0.1, 0.2]]])).elements[:, 0]
        found = client.post(f"/api/{name}/decode", json={"points": [[0.1, 0.2]]}).json()
        torch.testing.assert_close(torch.tensor(found["elements"]), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("NoSteps", "the decoder NoSteps is not a Decoder: it has no steps$"),
        ("Nothing", "it has no steps and no needs and no set_encoder$"),
        ("Sound", "the decoder Sound needs sound, but the input encoder offers vector and tokens"),
        ("Absent", "decoder 'own_refine:Absent' cannot be imported: module 'own_refine' has no attribute 'Absent'"),
        ("torch", "decoder 'own_refine:torch' must be an nn.Module class, got <module 'torch'"),
    ],
)
def test_classes_that_are_not_decoders_are_named(module, name, message, tmp_path, capsys):
    decoder = DecoderConfig(f"own_refine:{name}")
    with pytest.raises(UserError, match=message):
        SetPredictor.from_config(ModelConfig(4, 2, decoder=decoder))
    assert run(["train", "multisets", "--decoder.kind", decoder.kind, "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_saved_model_runs_the_users_code_only_if_allowed(module, tmp_path):
    model = SetPredictor.from_config(ModelConfig(4, 2, latent=8, decoder=DecoderConfig("own_refine:Refine")))
    model.save_pretrained(tmp_path)
    with pytest.raises(UserError, match="asks for the code 'own_refine:Refine'; if you trust it, pass allow_own_code"):
        SetPredictor.from_pretrained(tmp_path)
    loaded = SetPredictor.from_pretrained(tmp_path, allow_own_code=True)
    given = [[[0.1, 0.2]]]
    assert torch.equal(loaded.predict(given, steps=5).elements, model.predict(given, steps=5).elements)


@pytest.mark.parametrize("decoder", ["Tokens", "Declared"])
@pytest.mark.parametrize(("kind", "size", "channels"), [("set", 3, 3), ("vector", 5, 8), ("conv", 32, 12)])
def test_a_decoder_of_tokens_is_told_how_large_they_are(module, kind, size, channels, decoder):
    input = InputConfig(kind, size, hidden=(8,), widths=(8, 8, 12))
    model = SetPredictor.from_config(
        ModelConfig(4, 2, latent=8, input=input, decoder=DecoderConfig(f"own_refine:{decoder}"))
    )
    assert model.decoder.get_parameter("output.weight").shape[1] == channels
    given = {"set": [[[0.1, 0.2, 0.3]]], "vector": torch.rand(1, 5), "conv": torch.rand(1, 3, 32, 32)}[kind]
    assert model.predict(given).elements.shape == (1, 4, 2)
