"""SetPredictor: every input with every decoder, prediction, saving and loading, and files that do not fit."""

import json
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
import torch
from torch import nn

from setpredict import (
    DSPN,
    DecoderConfig,
    DeepSetEncoder,
    EncoderConfig,
    GradientDescent,
    Implicit,
    InputConfig,
    ModelConfig,
    NotFinite,
    SetPredictor,
    Sets,
    UserError,
    suggest_step_size,
)
from setpredict.losses import OuterLoss, hungarian_loss

SMALL = EncoderConfig(hidden=(16,))
THREE_STEPS = GradientDescent(steps=3)
IDSPN = DecoderConfig(
    solver=GradientDescent(steps=4, step_size=1.0, momentum=0.9, nesterov=True, clip_norm=10.0),
    gradient=Implicit(),
    loss="squared",
    mask="free",
    initial="random",
)
INPUTS = {
    "vector": (InputConfig("vector", 6, hidden=(8,)), lambda: torch.randn(3, 6)),
    "image": (InputConfig("resnet", 64, depth=18, width=4), lambda: torch.rand(3, 3, 64, 64)),
    "set": (InputConfig("set", 2), lambda: [[[0.1, 0.2]], [], [[0.3, 0.4], [0.5, 0.6]]]),
    "other set": (
        InputConfig("set", 3, max_size=9, shared=False),
        lambda: [[[0.1, 0.2, 0.3]] * 7, [], [[1.0, 2.0, 3.0]]],
    ),
}
DECODERS = {
    "dspn": DecoderConfig(solver=THREE_STEPS),
    "idspn": IDSPN,
    "predicted": DecoderConfig(solver=THREE_STEPS, initial="predicted", hidden=(8,), project="unit"),
    "mlp": DecoderConfig("mlp", hidden=(8, 8)),
    "lstm": DecoderConfig("lstm", hidden=(8,)),
}


def config(input="set", decoder="dspn", **options) -> ModelConfig:
    return ModelConfig(5, 2, latent=12, input=INPUTS[input][0], encoder=SMALL, decoder=DECODERS[decoder], **options)


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("input", INPUTS)
def test_every_input_with_every_decoder_predicts_saves_and_loads(input, decoder, tmp_path):
    torch.manual_seed(0)
    model = SetPredictor.from_config(config(input, decoder))
    given = INPUTS[input][1]()
    predicted = model.predict(given)
    assert predicted.elements.shape == (3, 5, 2)
    assert model.training
    assert not predicted.elements.requires_grad
    model.save_pretrained(tmp_path / "model")
    assert sorted(f.name for f in (tmp_path / "model").iterdir()) == ["config.json", "model.safetensors"]
    loaded = SetPredictor.from_pretrained(tmp_path / "model")
    assert loaded.config == model.config
    assert torch.equal(loaded.predict(given).elements, predicted.elements)


def test_an_auto_encoder_shares_its_encoder_after_loading_too(tmp_path):
    model = SetPredictor.from_config(config())
    assert isinstance(model.decoder, DSPN)
    assert model.input_encoder is model.decoder.encoder
    model.save_pretrained(tmp_path)
    loaded = SetPredictor.from_pretrained(tmp_path)
    assert sum(p.numel() for p in loaded.parameters()) == sum(p.numel() for p in model.parameters())


def test_the_lambda_term_exists_only_where_the_encoder_is_not_shared():
    target = Sets.from_list([[[0.1, 0.2]], [], [[0.3, 0.4], [0.5, 0.6]]], max_size=5)
    assert SetPredictor.from_config(config())(target, target).target_loss is None
    model = SetPredictor.from_config(config("vector"))
    x = torch.randn(3, 6)
    loss = model(x, target).target_loss
    assert isinstance(model.decoder, DSPN)
    code = model.decoder.encoder(target.elements, target.mask.float())
    expected = nn.functional.smooth_l1_loss(code, model.encode(x).vector, reduction="none").mean(1)
    assert loss is not None
    torch.testing.assert_close(loss, expected)
    loss.sum().backward()
    assert model.input_encoder[0].weight.grad.abs().sum() > 0  # pyright: ignore


@pytest.mark.parametrize("input", ["set", "other set"])
def test_the_padding_of_an_input_does_not_matter(input):
    model = SetPredictor.from_config(config(input))
    given = INPUTS[input][1]()
    together = model.predict(given)
    for i, one in enumerate(given):
        alone = model.predict([one])
        torch.testing.assert_close(alone.elements[0], together.elements[i], msg=lambda m, i=i: f"input {i}: {m}")


def test_more_steps_per_call():
    model = SetPredictor.from_config(config("vector"))
    x = torch.randn(2, 6)
    assert torch.equal(model.predict(x, steps=3).elements, model.predict(x).elements)
    assert not torch.equal(model.predict(x, steps=9).elements, model.predict(x).elements)
    assert model(x, steps=9).steps == 9


@pytest.mark.parametrize(
    ("input", "given", "message"),
    [
        ("vector", torch.zeros(2, 5), r"vectors of 6 numbers, shape \(B, 6\), got shape \(2, 5\)"),
        ("image", torch.zeros(2, 3, 32, 64), r"images of shape \(B, 3, 64, 64\), got shape"),
        ("set", [[[1.0, 2.0, 3.0]]], "features=2 and 3 in set 0"),
        ("set", [[[1.0, 2.0]] * 6], "set 0 has 6 elements, more than max_size=5"),
        ("vector", Sets(torch.zeros(1, 2, 2), torch.ones(1, 2)), "takes vectors of 6 numbers"),
        ("image", torch.zeros(2, 3, 64, 64, dtype=torch.uint8), "from 0 to 1, got torch.uint8: divide by 255"),
        ("image", np.zeros((2, 3, 64, 64), np.uint8), "from 0 to 1, got uint8: divide by 255"),
        ("vector", ["a"], "takes vectors of 6 numbers, .*got <U1"),
        ("vector", [[1.0, 2.0], [3.0]], "takes vectors of 6 numbers, .*inhomogeneous"),
        ("set", [[{"x": 1}]], "set 0 is not a list of equally long lists of numbers"),
        ("vector", torch.full((1, 6), torch.nan), "the input has values that are not finite"),
        ("set", Sets(torch.full((1, 3, 2), torch.inf), torch.ones(1, 3)), "input 0, element 0 is inf"),
    ],
)
def test_inputs_that_do_not_fit_are_named(input, given, message):
    with pytest.raises(UserError, match=message):
        SetPredictor.from_config(config(input)).predict(given)


def test_models_of_one_set_size_raise_for_smaller_sets():
    model = SetPredictor.from_config(config(variable=False))
    model.predict(torch.rand(2, 5, 2))
    with pytest.raises(UserError, match="takes sets of exactly 5 elements, got one of 1"):
        model.predict([[[0.1, 0.2]]])


def test_the_step_size_recipe_takes_a_complete_model():
    assert suggest_step_size(SetPredictor.from_config(config("vector")), torch.randn(8, 6)) > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"latnt": 3}, r"config.json.latnt is not a known field; did you mean config.json.latent\?"),
        ({"decoder": {"solver": {"steps": "ten"}}}, "config.json.decoder.solver.steps must be int, got 'ten'"),
        ({"decoder": {"gradient": "last"}}, "config.json.decoder.gradient: the gradient must be .*, got 'last'"),
        ({"decoder": {"solver": {"steps": -1}}}, "config.json.decoder.solver: steps must be 0 or more, got -1"),
        ({"decoder": {"kind": "gru"}}, "decoder.kind must be dspn, slots, .* or module:Class, got 'gru'"),
        ({"encoder": {"kind": "gru"}}, "encoder.kind must be mlp, relation or module:Class, got 'gru'"),
        ({"encoder": {"hidden": [16, "x"]}}, r"config.json.encoder.hidden\[1\] must be int"),
        ({"variable": 1}, "config.json.variable must be bool, got 1"),
        ({"input": []}, "config.json.input must be an object"),
        ({"encoder": {"kind": "os:system"}}, "config.json asks for the code 'os:system'"),
        ({"decoder": {"kind": "os:system"}}, "config.json asks for the code 'os:system'"),
        ({"version": 99}, "config.json has version 99; this setpredict reads versions 1 to 2: update it"),
    ],
)
def test_mistakes_in_config_files_name_the_field(tmp_path, change, message):
    SetPredictor.from_config(config()).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(UserError, match=message):
        SetPredictor.from_pretrained(tmp_path)


def test_missing_and_broken_files_are_named(tmp_path):
    with pytest.raises(UserError, match=r"config.json not found: is .* a saved model\?"):
        SetPredictor.from_pretrained(tmp_path)
    SetPredictor.from_config(config()).save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(UserError, match="not a readable safetensors file"):
        SetPredictor.from_pretrained(tmp_path)
    weights.unlink()
    with pytest.raises(UserError, match=r"model.safetensors not found: is .* a saved model\?"):
        SetPredictor.from_pretrained(tmp_path)
    for content in (b"{", b"\xff"):
        (tmp_path / "config.json").write_bytes(content)
        with pytest.raises(UserError, match=r"config.json is not (valid JSON|a text file)"):
            SetPredictor.from_pretrained(tmp_path)


def test_weights_of_another_model_are_named(tmp_path):
    SetPredictor.from_config(config()).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    original = json.loads(path.read_text())
    path.write_text(json.dumps({**original, "latent": 13}))
    with pytest.raises(UserError, match=r"of another shape: decoder.encoder.network.2.bias is \(12,\), not \(13,\)"):
        SetPredictor.from_pretrained(tmp_path)
    path.write_text(json.dumps({**original, "decoder": {**original["decoder"], "kind": "mlp"}}))
    with pytest.raises(UserError, match=r"missing: input_encoder.*; not in this model: decoder.encoder"):
        SetPredictor.from_pretrained(tmp_path)


def test_models_without_a_configuration_cannot_be_saved():
    model = SetPredictor(nn.Linear(3, 4), nn.Identity())
    with pytest.raises(UserError, match="put together by hand"):
        model.save_pretrained("nowhere")


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    model = SetPredictor.from_config(config())
    model.save_pretrained(tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()

    def full_disk(model, path):
        with open(path, "wb") as f:
            f.write(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr("setpredict.model.save_weights", full_disk)
    with pytest.raises(OSError, match="No space"):
        model.save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == before
    assert sorted(f.name for f in tmp_path.iterdir()) == ["config.json", "model.safetensors"]


class OwnEncoder(nn.Module):
    def __init__(self, features: int, latent: int, max_size: int):
        super().__init__()
        self.lift = nn.Linear(features + 1, latent)

    def forward(self, elements, mask):
        return self.lift(torch.cat([elements, mask.to(elements.dtype)[..., None]], -1)).tanh().sum(1)


def test_a_set_encoder_of_the_users_own(tmp_path):
    own = config()
    own.encoder = EncoderConfig(kind=f"{__name__}:OwnEncoder")
    model = SetPredictor.from_config(own)
    model.save_pretrained(tmp_path)
    with pytest.raises(UserError, match="allow_own_code=True"):
        SetPredictor.from_pretrained(tmp_path)
    loaded = SetPredictor.from_pretrained(tmp_path, allow_own_code=True)
    given = [[[0.1, 0.2]]]
    assert torch.equal(loaded.predict(given).elements, model.predict(given).elements)
    for bad, message in (("no.such:Thing", "cannot be imported"), ("math:pi", "must be an nn.Module class")):
        own.encoder = EncoderConfig(kind=bad)
        with pytest.raises(UserError, match=message):
            SetPredictor.from_config(own)


def test_impossible_combinations_raise():
    with pytest.raises(UserError, match=r"encoder.mask 'filter'"):
        SetPredictor.from_config(ModelConfig(5, 2, encoder=EncoderConfig(mask="filter")))
    with pytest.raises(UserError, match=r"set input.shared to false"):
        SetPredictor.from_config(ModelConfig(5, 2, input=InputConfig("set", 3)))


def first_norm(model: nn.Module) -> nn.Module:
    return next(module for module in model.modules() if isinstance(module, nn.BatchNorm2d))


def test_predicting_leaves_every_layer_in_its_mode():
    model = SetPredictor.from_config(ModelConfig(3, 2, input=InputConfig("resnet", 64, depth=10, width=4))).train()
    first_norm(model).eval()  # frozen by its user
    before = [m.training for m in model.modules()]
    model.predict(torch.rand(2, 3, 64, 64))
    assert [m.training for m in model.modules()] == before
    with pytest.raises(UserError, match="takes images"):
        model.predict(torch.rand(2, 3, 32, 32))
    assert [m.training for m in model.modules()] == before


def test_double_precision_survives_saving(tmp_path):
    model = SetPredictor.from_config(ModelConfig(3, 2)).double()
    model.save_pretrained(tmp_path)
    again = SetPredictor.from_pretrained(tmp_path)
    given = [[[0.1, 0.2]]]
    assert torch.equal(again.predict(given).elements, model.predict(given).elements)
    assert again.predict(given).elements.dtype == torch.float64


def test_more_padding_than_capacity_and_no_sets_at_all():
    model = SetPredictor.from_config(ModelConfig(3, 2))
    wide = Sets.from_list([[[0.1, 0.2]], [[0.3, 0.4], [0.5, 0.6]]], max_size=10)
    assert torch.equal(model.predict(wide).elements, model.predict(wide.to_list()).elements)
    assert len(model.predict(wide[:0])) == 0


@pytest.mark.parametrize("change", [{"max_size": -3}, {"latent": 0}, {"features": 0}])
def test_sizes_below_one_raise(change):
    with pytest.raises(UserError, match=f"{next(iter(change))} must be (from 1 to|at least 1)"):
        SetPredictor.from_config(ModelConfig(**{"max_size": 3, "features": 2} | change))


def test_the_step_size_recipe_changes_nothing():
    model = SetPredictor.from_config(ModelConfig(3, 2, input=InputConfig("resnet", 64, depth=10, width=4))).train()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    suggest_step_size(model, torch.rand(2, 3, 64, 64).numpy())
    assert first_norm(model).training
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    one_shot = SetPredictor.from_config(ModelConfig(3, 2, decoder=DecoderConfig("mlp")))
    with pytest.raises(ValueError, match="a MLPDecoder has no step size; step sizes are for DSPN"):
        suggest_step_size(one_shot, [[[0.1, 0.2]]])


@pytest.mark.parametrize("decoder", [DecoderConfig(), DecoderConfig("mlp"), DecoderConfig(project="unit")])
def test_scaled_features_are_the_same_as_scaled_data(decoder):
    """The model and its loss on boxes enlarged inside equal an unscaled model on boxes enlarged beforehand."""
    scale = (5.0, 5.0, 1.0)
    config = ModelConfig(
        4, 3, latent=8, input=InputConfig("vector", 6), encoder=EncoderConfig(hidden=(16,)), decoder=decoder
    )
    torch.manual_seed(0)
    plain = SetPredictor.from_config(config)
    scaled = SetPredictor.from_config(replace(config, feature_scale=scale))
    scaled.load_state_dict(plain.state_dict())
    if decoder.project == "unit":  # the unit box is larger inside
        cast(DSPN, plain.decoder).project = lambda x: x.clamp(min=0).minimum(torch.tensor(scale))
    x, target = torch.randn(3, 6), Sets(torch.rand(3, 4, 3), torch.tensor([[1.0, 1, 1, 0]] * 3))
    large = Sets(target.elements * torch.tensor(scale), target.mask)
    ours, theirs = scaled(x, target), plain(x, large)
    torch.testing.assert_close(ours.elements * torch.tensor(scale), theirs.elements)
    if ours.target_loss is not None:
        torch.testing.assert_close(ours.target_loss, theirs.target_loss)
    ours_loss = OuterLoss(hungarian_loss, "hungarian", feature_scale=scale)(ours, target)["loss"]
    torch.testing.assert_close(ours_loss, OuterLoss(hungarian_loss, "hungarian")(theirs, large)["loss"])
    torch.testing.assert_close(scaled.predict(x).elements, ours.final.elements)


def test_a_shared_encoder_sees_scaled_inputs():
    config = ModelConfig(4, 2, latent=8, encoder=EncoderConfig(hidden=(16,)), feature_scale=(3.0, 3.0))
    model = SetPredictor.from_config(config)
    sets = Sets(torch.rand(2, 4, 2), torch.ones(2, 4))
    code = model.encode(sets).vector
    torch.testing.assert_close(code, cast(DSPN, model.decoder).encoder(3 * sets.elements, sets.mask))
    assert model(sets, sets).target_loss is None


def test_what_a_mask_removes_does_not_matter():
    model = SetPredictor.from_config(config("set"))
    mask = torch.tensor([[True, False, True, False, False]])
    elements = torch.rand(1, 5, 2)
    other = elements.masked_fill(~mask[..., None], 7.0)
    assert torch.equal(model.predict(Sets(elements, mask)).elements, model.predict(Sets(other, mask)).elements)


def test_the_step_size_recipe_starts_where_decoding_does():
    """With features enlarged for the decoder, the proposals of a dense head are, too."""
    torch.manual_seed(0)
    images = InputConfig("conv", 32, widths=(8, 16), dense=True)
    decoder = DecoderConfig(initial="dense", solver=GradientDescent(steps=2))
    model = SetPredictor.from_config(
        ModelConfig(5, 4, input=images, elements="boxes", decoder=decoder, feature_scale=(5.0,) * 4)
    )
    seen, forward = [], model.decoder.forward
    model.decoder.forward = lambda code, **given: seen.append(code.proposals.elements) or forward(code, **given)  # pyright: ignore
    given = torch.rand(2, 3, 32, 32)
    suggest_step_size(model, given)
    model.predict(given)
    torch.testing.assert_close(seen[0], seen[-1])


def test_the_step_size_of_no_steps_is_an_error():
    with pytest.raises(ValueError, match="a decoder of 0 steps moves nothing"):
        suggest_step_size(DSPN(DeepSetEncoder(2, 16, 5), solver=GradientDescent(steps=0)), torch.zeros(1, 16))


def test_the_folder_of_a_run_is_not_that_of_its_model(tmp_path):
    SetPredictor.from_config(config()).save_pretrained(tmp_path / "run" / "weights")
    with pytest.raises(UserError, match=r"run is a run: load it with setpredict.load, or give .*weights"):
        SetPredictor.from_pretrained(tmp_path / "run")


def test_images_of_other_units_are_named():
    images = InputConfig("conv", 32, widths=(8, 16))
    model = SetPredictor.from_config(ModelConfig(5, 2, input=images, decoder=DecoderConfig("mlp", hidden=(8,))))
    with pytest.raises(UserError, match="images are numbers from 0 to 1, got up to 255: divide by 255"):
        model.predict(torch.full((1, 3, 32, 32), 255.0))


def test_a_given_initial_set_is_in_the_units_of_the_data():
    model = SetPredictor.from_config(
        ModelConfig(3, 2, latent=8, input=InputConfig("vector", 4), feature_scale=(5.0, 0.5))
    )
    start = Sets(torch.rand(2, 3, 2), torch.ones(2, 3))
    trajectory = model.decode(model.encode(torch.randn(2, 4)), start=start)
    torch.testing.assert_close(trajectory.elements[0], start.elements)


def test_impossible_options_and_inputs_are_named():
    def build(**given):
        return SetPredictor.from_config(ModelConfig(5, 2, latent=8, encoder=SMALL, **given))

    projected, scaled = DecoderConfig(), DecoderConfig()
    projected.project, scaled.step_scale = "box", "learn"  # pyright: ignore
    for given, problem in (
        ({"decoder": projected}, "decoder.project must be one of none, unit, simplex, got 'box'"),
        ({"decoder": scaled}, "decoder.step_scale must be one of equal, learned, added, got 'learn'"),
        ({"feature_scale": (1.0, 0.0)}, "feature_scale must be 2 numbers above 0"),
        ({"feature_scale": (1.0,)}, "feature_scale must be 2 numbers above 0"),
    ):
        with pytest.raises(UserError, match=problem):
            build(**given)
    slots = build(decoder=DecoderConfig("slots", width=8, heads=2))
    with pytest.raises(UserError, match=r"steps must be from 0 to 10,000, got -1"):
        slots.predict([[[0.1, 0.2]]], steps=-1)
    with pytest.raises(UserError, match="this model takes sets of exactly 5 elements, got one of 1"):
        build(variable=False).predict([[[0.1, 0.2]]])


def test_predictions_and_weights_that_are_not_finite_are_errors(tmp_path):
    decoder = DecoderConfig(mask="free", loss="squared", solver=GradientDescent(100, 1e4))
    model = SetPredictor.from_config(ModelConfig(5, 2, latent=16, encoder=EncoderConfig(hidden=()), decoder=decoder))
    with pytest.raises(NotFinite, match="predicted set 0, element 0 is"):
        model.predict([[[0.1, 0.2]]])
    model.save_pretrained(tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()
    with torch.no_grad():
        next(model.parameters()).fill_(torch.nan)
    with pytest.raises(UserError, match="this model has weights that are not finite"):
        model.save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == before
