"""Every option as a field of a typed dataclass, declared once with its documentation.

The command line, `config.json` and the option tables of the docs come from these declarations, and the parts of a
model are built from the same objects. No torch here, so that the command line answers at once.
"""

from setpredict.config.data import AugmentConfig, DataConfig, SceneOptions
from setpredict.config.experiment import Experiment
from setpredict.config.inner import Gradient, GradientDescent, Implicit, LastSteps, Unrolled
from setpredict.config.model import DecoderConfig, ElementKind, EncoderConfig, InputConfig, ModelConfig
from setpredict.config.serialize import from_dict, from_json, to_dict, to_json, with_changes
from setpredict.config.training import LossConfig, TrainConfig

__all__ = [
    "AugmentConfig",
    "DataConfig",
    "DecoderConfig",
    "ElementKind",
    "EncoderConfig",
    "Experiment",
    "Gradient",
    "GradientDescent",
    "Implicit",
    "InputConfig",
    "LastSteps",
    "LossConfig",
    "ModelConfig",
    "SceneOptions",
    "TrainConfig",
    "Unrolled",
    "from_dict",
    "from_json",
    "to_dict",
    "to_json",
    "with_changes",
]
