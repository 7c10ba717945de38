"""What the data decide: options that are left to them, and the sizes of the model."""

from __future__ import annotations

from dataclasses import replace

from setpredict.config import (
    DecoderConfig,
    Experiment,
    GradientDescent,
    InputConfig,
    ModelConfig,
    from_dict,
    to_dict,
    with_changes,
)
from setpredict.core.errors import UserError
from setpredict.data import SetTask
from setpredict.presets import OWN, preset

NUMBER_SCALE = 5.0
"""Numbers from 0 to 1 differ little between elements; unscaled, they weigh little beside masks and categories."""
RATE, IMAGE_RATE = 3e-3, 1e-3
"""The learning rate for vectors and sets, and for images."""
IMAGE_LATENT, LATENT = 128, (128, 512)
"""The length of an image's code; the range of that of vectors and sets."""
WARMUP = 0.3
"""Fraction of the training of images with known places in which the dense head is trained alone."""
FROM_DENSE = GradientDescent(steps=5, step_size=2.5)
"""The inner loop from the proposals of a dense head, which are nearly right."""
MOST_SCALE = 1e4
"""The largest factor of features: float32 must hold their squares."""


def resolved(experiment: Experiment, task: SetTask) -> Experiment:
    """The experiment with every option that was left to the data (None or "auto") decided.

    Where the places of the elements in images are known, a dense head warms up the image encoder and proposes the
    initial set, from which DSPN descends in few small steps; padding is then not matched, because proposals that are
    not objects need not become zeros. Elsewhere, codes are as long as sets need, and settings are the paper's.
    """
    dense = task.has_centers
    if experiment.decoder.kind == "auto":
        experiment = _with_method(experiment, dense)
    input, decoder, loss = experiment.input, experiment.decoder, experiment.loss
    latent, train = experiment.latent, experiment.train
    if latent is None:
        latent = IMAGE_LATENT if task.input_kind == "image" else _latent_for(task)
    if train.lr is None:
        train = replace(train, lr=IMAGE_RATE if task.input_kind == "image" else RATE)
    if input.warmup is None:
        input = replace(input, warmup=WARMUP if dense and decoder.kind != "dense" else 0.0)
    if decoder.initial == "auto":
        decoder = replace(decoder, initial="dense" if dense and decoder.kind == "dspn" else "learned")
        if decoder.initial == "dense" and decoder.solver == GradientDescent():
            decoder = replace(decoder, solver=FROM_DENSE, step_scale="learned")
    from_dense = decoder.kind == "dspn" and decoder.initial == "dense"
    if loss.dense is None:
        loss = replace(loss, dense=1.0 if from_dense or decoder.kind == "dense" else 0.0)
    if loss.masks is None:
        loss = replace(loss, masks="filter" if from_dense else "feature")
    return replace(experiment, latent=latent, input=input, decoder=decoder, loss=loss, train=train)


def _with_method(experiment: Experiment, dense: bool) -> Experiment:
    """DSPN from a dense head's proposals where the data have places in images; else iDSPN, which learns numbers faster.

    If options of the decoder were given, they are those of DSPN. All other options that were given stay.
    """
    given = replace(experiment.decoder, kind="dspn")
    if dense or given != DecoderConfig(initial="auto"):
        return replace(experiment, decoder=given)
    default, idspn = (to_dict(preset("folder", method)) for method in ("auto", "idspn"))
    return from_dict(Experiment, with_changes(idspn, default, to_dict(experiment)))


def _latent_for(task: SetTask) -> int:
    """Room for twice as many numbers as the largest set has, so that an encoder need not lose any: a power of two."""
    wanted = 2 * task.max_size * task.features
    return min(max(1 << (wanted - 1).bit_length(), LATENT[0]), LATENT[1])


def model_config(experiment: Experiment, task: SetTask) -> ModelConfig:
    """The model of an experiment for a data set, which decides sizes and dimensions."""
    experiment = resolved(experiment, task)
    assert experiment.latent is not None
    kind = task.input_kind
    if kind == "image":
        kind = experiment.input.kind if experiment.input.kind in ("conv", "resnet") else "conv"
    input = replace(experiment.input, kind=kind, size=task.input_size, dense=_wants_dense_head(experiment, task))
    _check_weights(input)
    input.pretrained, input.weights = input.pretrained or input.weights is not None, None
    if task.input_kind == "set":
        largest = task.input_capacity
        capacity = input.max_size or largest
        if capacity < largest:
            raise UserError(f"input.max_size must be at least {largest}, as the largest input set, got {capacity}")
        varies = task.input_varies or capacity > largest if input.variable is None else input.variable
        # The output's encoder can take input sets that fit into it, if it has masks where they are padded.
        fits = capacity <= task.max_size if task.variable else capacity == task.max_size and not varies
        input.shared = input.shared and task.auto_encodes and task.input_size == task.features and fits
        if not input.shared:
            input.max_size, input.variable = capacity, varies
        input.tokens = input.tokens or ("vector" if task.auto_encodes else "elements")
    _check_sized(experiment, input)
    return ModelConfig(
        max_size=task.max_size,
        features=task.features,
        variable=task.variable,
        latent=experiment.latent,
        input=input,
        encoder=experiment.encoder,
        decoder=experiment.decoder,
        elements=task.kind,
        groups=dict(task.groups),
        feature_scale=feature_scale(experiment, task),
    )


def feature_scale(experiment: Experiment, task: SetTask) -> tuple[float, ...]:
    """The factor of each feature in the decoder and the set loss; empty where all are 1."""
    factor = experiment.coordinates
    if factor is None:
        factor = NUMBER_SCALE if task.kind == "boxes" or experiment.data.name in OWN else 1.0
    if not 0 < factor <= MOST_SCALE:
        raise UserError(f"--coordinates must be above 0 and at most {MOST_SCALE:g}, got {factor:g}")
    numbers = set(task.numbers)
    return () if factor == 1 else tuple(factor if i in numbers else 1.0 for i in range(task.features))


def _check_weights(input: InputConfig) -> None:
    if input.weights is not None and input.kind != "resnet":
        raise UserError("--input.weights are of a ResNet: add --input.kind resnet")
    if input.freeze != "none" and input.weights is None and not input.pretrained:
        raise UserError("--input.freeze keeps weights from a file: add --input.weights")
    if not 0 <= input.weights_rate <= 1:
        raise UserError(f"--input.weights-rate must be from 0 to 1, got {input.weights_rate:g}")


def _check_sized(experiment: Experiment, input: InputConfig) -> None:
    """The size that z has is exact where the set itself is encoded, and else learned by the λ term alone."""
    decoder = experiment.decoder
    is_sized = decoder.kind == "dspn" and decoder.initial == "sized"
    if is_sized and not (input.kind == "set" and input.shared) and not experiment.loss.repr_weight:
        raise UserError("--decoder.initial sized learns the size of sets by --loss.repr-weight, which must be above 0")


def _wants_dense_head(experiment: Experiment, task: SetTask) -> bool:
    """Whether anything needs a dense head; raises where the data cannot train one."""
    wants = {
        "--method dense": experiment.decoder.kind == "dense",
        "--decoder.initial dense": experiment.decoder.kind == "dspn" and experiment.decoder.initial == "dense",
        "--input.warmup": bool(experiment.input.warmup),
        "--loss.dense": bool(experiment.loss.dense),
    }
    asked = [option for option, wanted in wants.items() if wanted]
    if asked and not task.has_centers:
        raise UserError(
            f"{asked[0]} needs a dense head, and {task.name} does not say where in an image its elements are: it takes "
            "images with boxes, points or CLEVR's objects"
        )
    return bool(asked) or (experiment.input.dense and task.has_centers)
