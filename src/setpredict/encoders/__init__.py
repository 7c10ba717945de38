"""Anything to a vector: set encoders, which DSPN turns into decoders, and input encoders."""

from setpredict.encoders.deep_sets import DeepSetEncoder
from setpredict.encoders.fspool import FSPool
from setpredict.encoders.mlp import MLP
from setpredict.encoders.pooling import MaxPool, MeanPool, SumPool, make_pool
from setpredict.encoders.relation import RelationEncoder
from setpredict.encoders.images.resnet import ResNetEncoder

__all__ = [
    "MLP",
    "DeepSetEncoder",
    "FSPool",
    "MaxPool",
    "MeanPool",
    "RelationEncoder",
    "ResNetEncoder",
    "SumPool",
    "make_pool",
]
