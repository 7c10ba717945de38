"""Begin with the weights of another run."""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import load_file

from setpredict.config import ConfigError
from setpredict.decoders import DSPN
from setpredict.model import SetPredictor, load_weights, read_config
from setpredict.models import refuse_shipped


def init_from(model: SetPredictor, run: Path) -> None:
    """Give the model the best weights of a run of the same model.

    An MLP decoder's run may also be the start of a DSPN with a predicted initial set: what the MLP answers is then the
    guess that DSPN refines. A set encoder that the MLP's run does not have stays fresh.
    """
    refuse_shipped(run, "--init-from")
    best = run / "best"
    guessing = isinstance(model.decoder, DSPN) and model.decoder.initial_kind == "predicted"
    if not guessing or read_config(best / "config.json").decoder.kind != "mlp":
        load_weights(model, best / "model.safetensors")
        return
    old, new = "decoder.layers.", "decoder.initial.guess."
    saved = {k.replace(old, new): v for k, v in load_file(best / "model.safetensors").items()}
    own = model.state_dict()
    wrong = [k for k, v in saved.items() if k not in own or own[k].shape != v.shape]
    if wrong:
        raise ConfigError(f"{run} cannot be the guess of this model: {wrong[0]} is missing in it or has another shape")
    model.load_state_dict(saved, strict=False)
