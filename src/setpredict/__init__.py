"""setpredict: predict sets with Deep Set Prediction Networks and their alternatives.

The public names. Each is imported when first used, so that `import setpredict` and `setpredict --help` stay fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from setpredict.config import (
        DecoderConfig,
        EncoderConfig,
        GradientDescent,
        Implicit,
        InputConfig,
        LastSteps,
        ModelConfig,
        Unrolled,
    )
    from setpredict.core.errors import NotFinite, UserError
    from setpredict.decoders import (
        DSPN,
        Decoder,
        LSTMDecoder,
        MLPDecoder,
        PredictedSet,
        RandomSet,
        SharedSet,
        SlotDecoder,
        TransformerDecoder,
        descend,
        diagnose,
        suggest_step_size,
    )
    from setpredict.encoders import MLP, Code, DeepSetEncoder, FSPool, RelationEncoder, ResNetEncoder
    from setpredict.losses import OuterLoss, chamfer_loss, hungarian_loss, outer_loss
    from setpredict.matching import PairCost
    from setpredict.model import SetPredictor
    from setpredict.runs.evaluate import evaluate
    from setpredict.runs.fit import fit
    from setpredict.runs.loaded import load
    from setpredict.sets import Prediction, Sets

__version__ = "0.2.0"

_NAMES = {
    "config": [
        "DecoderConfig",
        "EncoderConfig",
        "GradientDescent",
        "Implicit",
        "InputConfig",
        "LastSteps",
        "ModelConfig",
        "Unrolled",
    ],
    "core.errors": ["NotFinite", "UserError"],
    "decoders": [
        "DSPN",
        "Decoder",
        "LSTMDecoder",
        "MLPDecoder",
        "PredictedSet",
        "RandomSet",
        "SharedSet",
        "SlotDecoder",
        "TransformerDecoder",
        "descend",
        "diagnose",
        "suggest_step_size",
    ],
    "encoders": ["MLP", "Code", "DeepSetEncoder", "FSPool", "RelationEncoder", "ResNetEncoder"],
    "losses": ["OuterLoss", "chamfer_loss", "hungarian_loss", "outer_loss"],
    "matching": ["PairCost"],
    "model": ["SetPredictor"],
    "runs.evaluate": ["evaluate"],
    "runs.fit": ["fit"],
    "runs.loaded": ["load"],
    "sets": ["Prediction", "Sets"],
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "DSPN",
    "MLP",
    "Code",
    "Decoder",
    "DecoderConfig",
    "DeepSetEncoder",
    "EncoderConfig",
    "FSPool",
    "GradientDescent",
    "Implicit",
    "InputConfig",
    "LSTMDecoder",
    "LastSteps",
    "MLPDecoder",
    "ModelConfig",
    "NotFinite",
    "OuterLoss",
    "PairCost",
    "PredictedSet",
    "Prediction",
    "RandomSet",
    "RelationEncoder",
    "ResNetEncoder",
    "SetPredictor",
    "Sets",
    "SharedSet",
    "SlotDecoder",
    "TransformerDecoder",
    "Unrolled",
    "UserError",
    "chamfer_loss",
    "descend",
    "diagnose",
    "evaluate",
    "fit",
    "hungarian_loss",
    "load",
    "outer_loss",
    "suggest_step_size",
]


def __dir__() -> list[str]:
    return [*__all__, "data", "metrics"]


def __getattr__(name: str) -> Any:
    if name in ("data", "metrics"):
        return import_module(f"setpredict.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'setpredict' has no attribute {name!r}")
    return getattr(import_module(f"setpredict.{_MODULE_OF[name]}"), name)
