"""A code to a set: DSPN, slot attention, transformers, and the list-valued baselines."""

from setpredict.decoders.dense import DenseDecoder
from setpredict.decoders.dspn import DSPN
from setpredict.decoders.elementwise import ElementwiseDecoder
from setpredict.decoders.initial import InputSet, PredictedSet, RandomSet, SharedSet, SizedSet, initial_set
from setpredict.decoders.inner.descent import Descent, descend
from setpredict.decoders.inner.diagnosis import Diagnosis, diagnose, suggest_step_size
from setpredict.decoders.inner.objective import Objective, representation_loss
from setpredict.decoders.lstm import LSTMDecoder
from setpredict.decoders.mlp import MLPDecoder
from setpredict.decoders.protocol import Decoder, Layered, WithTargetLoss
from setpredict.decoders.slots import SlotDecoder
from setpredict.decoders.transformer import TransformerDecoder

__all__ = [
    "DSPN",
    "Decoder",
    "DenseDecoder",
    "Descent",
    "Diagnosis",
    "ElementwiseDecoder",
    "InputSet",
    "LSTMDecoder",
    "Layered",
    "MLPDecoder",
    "Objective",
    "PredictedSet",
    "RandomSet",
    "SharedSet",
    "SizedSet",
    "SlotDecoder",
    "TransformerDecoder",
    "WithTargetLoss",
    "descend",
    "diagnose",
    "initial_set",
    "representation_loss",
    "suggest_step_size",
]
