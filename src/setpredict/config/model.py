"""The options of a model: its input encoder, set encoder and decoder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from tyro.conf import arg
from tyro.constructors import PrimitiveConstructorSpec

from setpredict.config.inner import Gradient, GradientDescent, Implicit, LastSteps, Unrolled, parse_gradient

_GRADIENT = PrimitiveConstructorSpec(
    nargs=1,
    metavar="unrolled|last:K|implicit",
    instance_from_str=lambda words: parse_gradient(words[0]),
    is_instance=lambda value: isinstance(value, Gradient),
    str_from_instance=lambda value: [str(value)],
)


ElementKind = Literal["points", "polygons", "boxes", "states", "vectors"]
"""What the elements of a set are."""


@dataclass
class InputConfig:
    """The input and its encoder.

    Examples:
        >>> InputConfig("vector", 16).kind
        'vector'
    """

    kind: Literal["set", "vector", "conv", "resnet"] = "set"
    """The input and its encoder: sets, vectors, or images by a small residual network or a ResNet. The data set decides
    which of the three it is."""
    size: int = 2
    """Length of the vector, side of the square image in pixels, or features per element of the input set."""
    hidden: tuple[int, ...] = (256, 256)
    """Vectors: hidden layers of their MLP."""
    widths: tuple[int, ...] = (32, 48, 96, 128)
    """conv: channels of the stem and of the stages."""
    depth: Literal[10, 18, 34] = 34
    """resnet: ResNet10 (one block per stage), ResNet18 or ResNet34."""
    width: int = 64
    """resnet: channels of the first stage; the paper's is 64."""
    stem: Literal["imagenet", "small"] = "imagenet"
    """resnet: ImageNet's stem, or one of stride 2 without max pooling for images under 128 pixels."""
    tail: Literal["dspn", "idspn"] = "dspn"
    """resnet: how the feature map becomes a vector."""
    weights: str | None = None
    """resnet: begin with ImageNet's weights of this file: .safetensors or .pth, of torchvision's or timm's ResNet18 or
    ResNet34. Images are then normalized as these weights expect, and the statistics of batch norms stay."""
    pretrained: bool = False
    """resnet: whether the weights came from such a file. Set by weights."""
    weights_rate: float = 0.1
    """resnet: factor of the learning rate for weights from a file."""
    freeze: Literal["none", "stem", "stages"] = "none"
    """resnet: do not train the stem, or the stem and all stages; for weights from a file."""
    stride: Literal[4, 8, 16] = 8
    """Images: pixels per cell of the feature map that a dense head, slots or a transformer see."""
    dense: bool = False
    """Images: whether there is a dense head. Set by whatever needs one: warmup, loss.dense, decoder.initial dense,
    --method dense."""
    warmup: float | None = 0.0
    """Images: train the encoder with its dense head alone before the decoder joins: for this many steps, or, below 1,
    for this fraction of the training (None: chosen for the data)."""
    tokens: Literal["elements", "vector"] | None = None
    """Sets: what slots and transformers look at, their elements or their latent vector as one token (None: the vector
    where sets are their own target, which would otherwise only be copied)."""
    max_size: int = 0
    """Sets: capacity for input elements (0: as many as the data or the output has)."""
    shared: bool = True
    """Sets that are their own target: encode them with the decoder's own set encoder, as the paper does."""
    variable: bool | None = None
    """Sets: whether input sets differ in size (None: as the data or the output)."""


@dataclass
class EncoderConfig:
    """The set encoder g.

    Examples:
        >>> EncoderConfig("relation", hidden=(512,), pool="fspool-free").pool
        'fspool-free'
    """

    kind: str = "mlp"
    """mlp, relation, or your own as package.module:Class, called with (features, latent, max_size)."""
    hidden: tuple[int, ...] = (256, 256)
    """Hidden layers of the network on elements or pairs."""
    pool: Literal["fspool", "fspool-free", "sum", "mean", "max"] = "fspool"
    """Piecewise-linear FSPool (the paper), FSPool with one free weight per rank (iDSPN), or a plain pooling."""
    pieces: int = 20
    """Pieces of FSPool's piecewise-linear weight."""
    mask: Literal["feature", "weight", "filter"] = "feature"
    """How the mask enters: as one more feature (the paper), as a factor, or as a hard filter (not with DSPN)."""
    normalize: bool = True
    """Divide by the set size before pooling, as the paper does."""
    mask_sum: bool = False
    """Make the last latent number four times the mean of the masks: an explicit signal for the size of the set."""
    init: Literal["xavier", "torch"] = "xavier"
    """How linear layers are initialized: Xavier-uniform with zero biases (the paper), or PyTorch's default (iDSPN)."""


@dataclass
class DecoderConfig:
    """The decoder: how a code becomes a set.

    Examples:
        >>> DecoderConfig("dspn", GradientDescent(steps=20), gradient=Implicit()).method
        'iDSPN'
    """

    kind: str = "dspn"
    """dspn, slots (Slot Attention), transformer (as in DETR), mlp, lstm, dense (the dense head alone), deep-sets or
    bilstm (sets from sets: one output element per input element), auto (chosen for the data), or your own as
    package.module:Class, called with (latent, max_size, features, variable), and with channels=C if it needs tokens."""
    solver: Annotated[GradientDescent, arg(name="")] = field(default_factory=GradientDescent)
    """The inner loop: steps, step size, momentum."""
    gradient: Annotated[Gradient, _GRADIENT] = field(default_factory=Unrolled)
    """How to differentiate through the inner loop: `unrolled` through all T steps (the paper), `last:K` through the
    last K steps, or `implicit` (iDSPN). The set loss over all steps then means over the sets that carry gradients."""
    loss: Literal["huber", "squared"] = "huber"
    """The representation loss: Huber (the paper) or squared (iDSPN)."""
    mask: Literal["clamp", "sigmoid", "free"] = "clamp"
    """How masks are kept: clamped to [0, 1] (the paper), a sigmoid, or free (iDSPN)."""
    initial: Literal["auto", "learned", "learned-normal", "fixed", "random", "sized", "predicted", "dense", "input"] = (
        "learned"
    )
    """The initial set Y0: a parameter that starts uniform (the paper) or normal (learned-normal), a constant, drawn
    per sample (iDSPN), noise of the size that the latent vector says (sized; with encoder.mask_sum), predicted by an
    MLP, the best cells of a dense head (images), or the input set, whose features come first and the others at
    random."""
    initial_scale: float = 0.1
    """Standard deviation of a random initial set, and of a learned-normal one before training."""
    queries: Literal["learned", "random", "input", "input+random"] = "learned"
    """transformer: what it starts from: parameters (DETR), drawn per sample, or the elements of the input set, as they
    are or with random numbers added."""
    width: int = 64
    """slots, transformer: numbers per slot or query."""
    heads: int = 4
    """transformer: attention heads."""
    step_scale: Literal["equal", "learned", "added"] = "equal"
    """One step size for all features; a learned factor of it per feature, which can leave some of them in place; or,
    with initial input, 0 for the features that the input has, so that only added ones move."""
    project: Literal["none", "unit", "simplex"] = "none"
    """`unit` keeps elements in the unit box after each step, `simplex` every one-hot group at probabilities."""
    recompute: bool = False
    """Recompute in the backward pass what it would otherwise keep of every step: a little slower, for memory
    that grows slowly with T."""
    hidden: tuple[int, ...] = (256, 256)
    """Hidden layers of the mlp decoder, of a predicted initial set, and of the network in every step of slots and
    transformer; lstm, deep-sets and bilstm use the first."""
    mask_bias: float = 0.0
    """mlp, lstm and a predicted initial set: added to the masks (1 on MNIST; without it, outputs get stuck at 0)."""

    @property
    def method(self) -> str:
        """The decoder's name in tables.

        >>> DecoderConfig(gradient=Implicit()).method, DecoderConfig("my_module:MyDecoder").method
        ('iDSPN', 'MyDecoder')
        """
        named = {"dense": "Dense head", "slots": "Slot Attention", "transformer": "Transformer"}
        named |= {"deep-sets": "Deep Sets", "bilstm": "BiLSTM"}
        if self.kind in named:
            return named[self.kind]
        if self.kind != "dspn":
            return self.kind.rpartition(":")[2] if ":" in self.kind else self.kind.upper()
        if isinstance(self.gradient, Implicit):
            return "iDSPN"
        if not isinstance(self.gradient, LastSteps) or self.gradient.k >= self.solver.steps:
            return "DSPN"
        return "DSPN, last-step gradient" if self.gradient.k == 1 else f"DSPN, last-{self.gradient.k}-steps gradient"


@dataclass
class ModelConfig:
    """A complete model: the content of `config.json` beside saved weights.

    >>> config = ModelConfig(max_size=10, features=4, latent=128, input=InputConfig("vector", 16))
    >>> config.decoder.method
    'DSPN'
    """

    max_size: int
    """N, the largest number of elements in a set."""
    features: int
    """D, the features of an element."""
    variable: bool = True
    """Whether sets differ in size (masks are predicted)."""
    latent: int = 64
    """L, the length of the vector that is decoded."""
    input: InputConfig = field(default_factory=InputConfig)
    """The input and its encoder."""
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    """The set encoder g."""
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    """The decoder."""
    elements: ElementKind = "vectors"
    """What the elements are, which tells a dense head where they are in the image."""
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """One-hot groups of the elements' features: name → (first, behind the last)."""
    feature_scale: tuple[float, ...] = ()
    """Factor of each feature inside the decoder (empty: 1): larger ones count for more in the inner loop."""

    @property
    def input_capacity(self) -> int:
        """Sets as inputs: the largest number of elements."""
        return self.input.max_size or self.max_size

    @property
    def input_varies(self) -> bool:
        """Sets as inputs: whether they differ in size."""
        return self.variable if self.input.variable is None else self.input.variable
