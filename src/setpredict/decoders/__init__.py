"""A vector to a set: DSPN, and the list-valued baselines."""

from setpredict.decoders.inner.descent import Descent, descend
from setpredict.decoders.inner.diagnosis import Diagnosis, diagnose, suggest_step_size
from setpredict.decoders.dspn import DSPN
from setpredict.decoders.lstm import LSTMDecoder
from setpredict.decoders.mlp import MLPDecoder
from setpredict.decoders.inner.objective import representation_loss

__all__ = [
    "DSPN",
    "Descent",
    "Diagnosis",
    "LSTMDecoder",
    "MLPDecoder",
    "descend",
    "diagnose",
    "representation_loss",
    "suggest_step_size",
]
