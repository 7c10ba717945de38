"""Initial weights from another run, or from a shipped model."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from setpredict.config import DecoderConfig
from setpredict.core.errors import UserError
from setpredict.core.weights import check_weights
from setpredict.decoders import Decoder
from setpredict.decoders.initial import PredictedSet
from setpredict.model import SetPredictor
from setpredict.runs.loaded import load


def load_initial_weights(model: SetPredictor, run: str | Path, allow_own_code: bool = False) -> None:
    """Give the model the best weights of a run of the same model, or those of a shipped one.

    A DSPN with a predicted initial set can also start from a run of an MLP decoder, whose output becomes the predicted
    initial set, or from a run of a DSPN with one initial set for all samples, which is then predicted for every input
    at first. Any decoder can start from a run of another one whose image encoder has a dense head: it takes the
    encoder, with the dense head if both are for the same kind of elements. Weights that the run does not have stay as
    they are.
    """
    source = load(run, allow_own_code=allow_own_code).model
    weights = source.state_dict()
    assert model.config is not None
    assert source.config is not None
    if source.config.input.dense and not _fits(source.config.decoder, model.config.decoder):
        weights = {name: w for name, w in weights.items() if name.startswith("input_encoder.")}
        same = [(c.elements, c.features, c.groups) for c in (source.config, model.config)]
        if not model.config.input.dense or same[0] != same[1]:
            weights = {name: w for name, w in weights.items() if not name.startswith("input_encoder.head.")}
        known, encoder = model.state_dict(), ("input_encoder.backbone.", "input_encoder.head.")
        if "vector" not in cast(Decoder, model.decoder).needs:  # it ends with the feature map
            weights = {name: w for name, w in weights.items() if name in known or not name.startswith(encoder)}
        own = {name: w for name, w in known.items() if not name.startswith("input_encoder.backbone.")}
        check_weights(model, own | weights, Path(run))
        model.load_state_dict(weights, strict=False)
        return
    if not _predicts_initial_set(model.config.decoder) or _predicts_initial_set(source.config.decoder):
        check_weights(model, weights, Path(run))
        model.load_state_dict(weights, strict=False)
        return
    shared = weights.pop("decoder.initial.values", None)  # one initial set for all samples
    weights.pop("decoder.initial.evaluation", None)  # a random one
    weights = {name.replace("decoder.layers.", "decoder.initial.network."): w for name, w in weights.items()}
    own = model.state_dict()
    wrong = [name for name, w in weights.items() if name not in own or own[name].shape != w.shape]
    if wrong:
        raise UserError(f"{run} does not fit this model: {wrong[0]} is missing in this model or has another shape")
    if shared is not None:
        initial = cast(PredictedSet, model.get_submodule("decoder.initial"))
        try:
            initial.begin_with(shared)
        except ValueError as e:
            raise UserError(f"{run} does not fit this model: {e}") from None
    model.load_state_dict(weights, strict=False)


def _fits(source: DecoderConfig, decoder: DecoderConfig) -> bool:
    """Whether a decoder can start from the other's own weights, not from its image encoder alone."""
    if source.kind == "mlp" and _predicts_initial_set(decoder):
        return True
    return source.kind == decoder.kind and (source.initial == "dense") == (decoder.initial == "dense")


def _predicts_initial_set(decoder: DecoderConfig) -> bool:
    return decoder.kind == "dspn" and decoder.initial == "predicted"
