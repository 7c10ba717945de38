"""setpredict: predict sets, with Deep Set Prediction Networks at the heart.

The public names; each is imported when first used, so that `import setpredict` and `setpredict --help` stay fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from setpredict.config import DecoderConfig, EncoderConfig, InputConfig, ModelConfig
    from setpredict.decoders import DSPN, LSTMDecoder, MLPDecoder, descend, diagnose, suggest_step_size
    from setpredict.encoders import MLP, DeepSetEncoder, FSPool, RelationEncoder, ResNetEncoder
    from setpredict.losses import chamfer_loss, hungarian_loss, outer_loss
    from setpredict.matching import PairCost
    from setpredict.model import SetPredictor
    from setpredict.sets import NotFinite, Prediction, Sets

__version__ = "0.1.0"

_ROOMS = {
    "config": ["DecoderConfig", "EncoderConfig", "InputConfig", "ModelConfig"],
    "decoders": ["DSPN", "LSTMDecoder", "MLPDecoder", "descend", "diagnose", "suggest_step_size"],
    "encoders": ["MLP", "DeepSetEncoder", "FSPool", "RelationEncoder", "ResNetEncoder"],
    "losses": ["chamfer_loss", "hungarian_loss", "outer_loss"],
    "matching": ["PairCost"],
    "model": ["SetPredictor"],
    "sets": ["NotFinite", "Prediction", "Sets"],
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = [
    "DSPN",
    "MLP",
    "DecoderConfig",
    "DeepSetEncoder",
    "EncoderConfig",
    "FSPool",
    "InputConfig",
    "LSTMDecoder",
    "MLPDecoder",
    "ModelConfig",
    "NotFinite",
    "PairCost",
    "Prediction",
    "RelationEncoder",
    "ResNetEncoder",
    "SetPredictor",
    "Sets",
    "chamfer_loss",
    "descend",
    "diagnose",
    "hungarian_loss",
    "outer_loss",
    "suggest_step_size",
]


def __getattr__(name: str) -> Any:
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'setpredict' has no attribute {name!r}")
    return getattr(import_module(f"setpredict.{_ROOM_OF[name]}"), name)
