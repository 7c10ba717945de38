"""Anything to a code: set encoders, which DSPN turns into decoders, and input encoders."""

from setpredict.encoders.code import Code, as_code
from setpredict.encoders.deep_sets import DeepSetEncoder
from setpredict.encoders.fspool import FSPool
from setpredict.encoders.images.conv import ConvEncoder
from setpredict.encoders.images.dense import DenseHead, ElementLayout
from setpredict.encoders.images.encoder import ImageEncoder
from setpredict.encoders.images.resnet import ResNetEncoder
from setpredict.encoders.mlp import MLP
from setpredict.encoders.pooling import MaxPool, MeanPool, SumPool, make_pool
from setpredict.encoders.relation import RelationEncoder
from setpredict.encoders.set_encoder import SetEncoder
from setpredict.encoders.tokens import PositionEmbedding, SetTokens, VectorTokens

__all__ = [
    "MLP",
    "Code",
    "ConvEncoder",
    "DeepSetEncoder",
    "DenseHead",
    "ElementLayout",
    "FSPool",
    "ImageEncoder",
    "MaxPool",
    "MeanPool",
    "PositionEmbedding",
    "RelationEncoder",
    "ResNetEncoder",
    "SetEncoder",
    "SetTokens",
    "SumPool",
    "VectorTokens",
    "as_code",
    "make_pool",
]
