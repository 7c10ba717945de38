"""Begin with the weights of another run, or of a shipped model."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file

from setpredict.config import ConfigError
from setpredict.decoders import DSPN
from setpredict.decoders.initial import PredictedSet
from setpredict.model import SetPredictor, load_weights, read_config
from setpredict.runs.card import model_folder


def init_from(model: SetPredictor, run: Path) -> None:
    """Give the model the best weights of a run of the same model, or those of a shipped one.

    A DSPN with a predicted initial set may also begin with the run of an MLP decoder, whose answer is then the guess
    that DSPN refines, or of a DSPN with one initial set for all, which is then the guess at first. What the run does
    not have stays fresh.
    """
    folder = model_folder(run)
    if not (folder / "model.safetensors").is_file():
        folder = folder / "best"
    weights, theirs = folder / "model.safetensors", read_config(folder / "config.json").decoder
    guess = model.decoder.initial if isinstance(model.decoder, DSPN) else None
    if not isinstance(guess, PredictedSet) or (theirs.kind == "dspn" and theirs.initial == "predicted"):
        load_weights(model, weights)
        return
    try:
        saved = load_file(weights)
    except SafetensorError as e:
        raise ConfigError(f"{weights} is not a readable safetensors file: {e}") from None
    shared = saved.pop("decoder.initial.values", None)
    saved = {k.replace("decoder.layers.", "decoder.initial.guess."): v for k, v in saved.items()}
    own = model.state_dict()
    wrong = [k for k, v in saved.items() if k not in own or own[k].shape != v.shape]
    if wrong:
        raise ConfigError(f"{run} cannot be the guess of this model: {wrong[0]} is missing in it or has another shape")
    model.load_state_dict(saved, strict=False)
    if shared is not None:
        guess.begin_with(shared)
