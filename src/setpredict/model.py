"""SetPredictor: an input encoder and a decoder, saved and loaded as one model."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from setpredict.config import InputConfig, ModelConfig, from_json, to_json
from setpredict.config.bounds import check_sizes
from setpredict.config.inner import MOST_STEPS
from setpredict.config.migrate import renamed_weight
from setpredict.core.batch_parts import FEWEST_ROWS, THREAD_ROWS, compute_in_parts
from setpredict.core.errors import NotFinite, UserError
from setpredict.core.files import atomic, read_json, write_text
from setpredict.core.modes import evaluating
from setpredict.core.weights import check_finite, check_header, load_weights, save_weights
from setpredict.data.task import SetTask
from setpredict.decoders import Decoder, DenseDecoder, Layered, RandomSet, WithTargetLoss
from setpredict.encoders import Code, ImageEncoder, as_code
from setpredict.export.predictor import export_predictor
from setpredict.parts import make_parts
from setpredict.sets import Prediction, Sets

CONFIG, WEIGHTS = "config.json", "model.safetensors"
IMAGES = ("conv", "resnet")


class SetPredictor(nn.Module):
    """input → code → set: any input encoder before any decoder.

    Args:
        input_encoder: From inputs to a `Code` or vectors z (B, L).
        decoder: A `Decoder`.
        config: What the two were built from; needed to save the model.

    >>> from setpredict.config import ModelConfig
    >>> model = SetPredictor.from_config(ModelConfig(max_size=8, features=2))
    >>> model.predict([[[0.1, 0.2], [0.3, 0.4]]])
    Sets(1 sets of up to 8 elements with 2 features, sizes ...)
    """

    scale: Tensor | None
    """The factor of each feature inside the decoder; None where all are 1."""

    def __init__(self, input_encoder: nn.Module, decoder: nn.Module, config: ModelConfig | None = None):
        super().__init__()
        self.input_encoder, self.decoder, self.config = input_encoder, decoder, config
        scale = config.feature_scale if config else ()
        self.register_buffer("scale", torch.tensor(scale) if scale else None, persistent=False)

    @classmethod
    def from_config(cls, config: ModelConfig) -> SetPredictor:
        """Build the model that a configuration describes, with new weights from torch's global seed."""
        check_sizes(config)
        return cls(*make_parts(config), config)

    def forward(
        self,
        input: Tensor | Sets,
        target: Sets | None = None,
        *,
        steps: int | None = None,
        keys: Int[Tensor, " B"] | None = None,
        centers: Float[Tensor, "B N 3"] | None = None,
        warmup: bool = False,
    ) -> Prediction:
        """The trajectory of sets, and what training needs besides.

        Args:
            input: Images, vectors or sets.
            target: The true sets; their representation loss is then computed too, for the λ term of training.
            steps: T, instead of the decoder's.
            keys: One key per sample for random initial sets.
            centers: Where the true elements are in the image and how large they look, for the loss of a dense head.
            warmup: Do not decode: the prediction is what the dense head proposes.
        """
        code = self.encode(input)
        prediction = DenseDecoder()(code) if warmup else self.decode(code, steps=steps, keys=keys)
        if target is not None and isinstance(self.decoder, WithTargetLoss) and not (warmup or self.shares_encoder):
            scaled = target if self.scale is None else target.scaled(self.scale)
            prediction.target_loss = self.decoder.target_loss(scaled, code)
        if target is not None and centers is not None and code.dense is not None:
            places = centers[..., :2], centers[..., 2]
            head = cast(ImageEncoder, self.input_encoder).head
            assert head is not None
            # Several processes wait for the gradient of every parameter, also of those that have no part in this.
            idle = code.vector.sum() + sum(p.sum() for p in self.decoder.parameters())
            idle = idle if code.tokens is None else idle + code.tokens.sum()
            prediction.dense_loss = head.loss(code.dense, target, *places) + 0 * idle
        return prediction

    @property
    def steps(self) -> int:
        """T, the decoder's number of steps; 0 for a one-shot decoder."""
        return cast(Decoder, self.decoder).steps

    @property
    def max_steps(self) -> int | None:
        """The largest number of steps that the decoder takes; None where there is no such limit."""
        return self.decoder.max_steps if isinstance(self.decoder, Layered) else None

    @property
    def parameter_count(self) -> int:
        """The number of its parameters."""
        return sum(p.numel() for p in self.parameters())

    @property
    def is_built_in(self) -> bool:
        """Whether encoders and decoder are known to be this package's own."""
        c = self.config
        return c is not None and ":" not in c.encoder.kind + c.decoder.kind

    @property
    def shares_encoder(self) -> bool:
        """Whether the decoder's set encoder encodes the input too; the true set then has representation loss 0."""
        return any(module is self.input_encoder for module in self.decoder.modules())

    def encode(self, input: Tensor | Sets) -> Code:
        """The code of each input."""
        if not isinstance(input, Sets):
            return as_code(self.input_encoder(input))
        if self.config:  # the code must not depend on how much padding a batch happens to have
            input = input.pad_to(self.config.input_capacity)
        if self.scale is not None and self.shares_encoder:
            input = input.scaled(self.scale)
        return as_code(self.input_encoder(input.elements, input.mask))

    def decode(
        self, code: Code, *, steps: int | None = None, keys: Int[Tensor, " B"] | None = None, **options: Any
    ) -> Prediction:
        """The trajectory of sets that the decoder makes of codes, in the data's own units.

        `options` are further arguments of the decoder's `forward`, such as the solver of DSPN.
        """
        if steps is not None and not 0 <= steps <= MOST_STEPS:
            raise UserError(f"steps must be from 0 to {MOST_STEPS:,}, got {steps}")
        if self.scale is None:
            return self.decoder(code, steps=steps, keys=keys, **options)
        if code.proposals is not None:
            code = replace(code, proposals=code.proposals.scaled(self.scale))
        if options.get("start") is not None:
            options["start"] = options["start"].scaled(self.scale)
        return self.decoder(code, steps=steps, keys=keys, **options).scaled(1 / self.scale)

    @torch.no_grad()
    def predict(self, input: Any, steps: int | None = None) -> Sets:
        """The predicted sets, without a target, in evaluation mode. `model(input)` has every step.

        Takes what the model was made for: images (B, 3, S, S) in [0, 1], vectors (B, L), or sets (`Sets`, or a ragged
        list of them). Other arrays and lists become tensors; all is moved to the model's device.

        On a CPU, a prediction is the same to the bit whatever the other inputs are and however many threads there are,
        unless encoders or decoders are somebody's own, or a few unusual shapes (docs/python.md).
        """
        with evaluating(self):
            return self.decode_each(self.encode_each(self.prepare(input)), steps).final.check_finite("predicted set")

    @torch.no_grad()
    def encode_each(self, input: Tensor | Sets) -> Code:
        """`encode`, in which on a CPU no input's code depends on the other inputs or on the number of threads."""
        if not self._computes_in_parts(input):
            return self.encode(input)
        assert self.config is not None
        rows, thread_rows = 1, THREAD_ROWS
        if isinstance(input, Sets):
            rows = self.config.input_capacity
        elif input.ndim == 4:  # convolutions are computed differently for a single image only
            rows, thread_rows = FEWEST_ROWS // 2, 2 * FEWEST_ROWS
        found = compute_in_parts(input, self.encode, rows=rows, thread_rows=thread_rows)
        return Code.cat([code[:n] for n, code in found])

    @torch.no_grad()
    def decode_each(self, code: Code, steps: int | None = None) -> Prediction:
        """`decode`, in which on a CPU no sample's sets depend on the other samples or on the number of threads."""
        if not self._computes_in_parts(code.vector):
            return self.decode(code, steps=steps)
        assert self.config is not None
        rows = self.config.max_size if self.steps else 1
        if code.tokens is not None:
            rows = min(rows, code.tokens.shape[1])
        try:
            found = compute_in_parts(code, lambda part: self.decode(part, steps=steps), rows=rows)
        except NotFinite:
            return self.decode(code, steps=steps)  # its message counts the samples of the complete batch
        return Prediction.cat([prediction.samples(slice(n)) for n, prediction in found])

    def _computes_in_parts(self, samples: Tensor | Sets) -> bool:
        """Whether this model's predictions can be computed in parts: on a CPU, with built-in encoders and decoders."""
        values = samples.elements if isinstance(samples, Sets) else samples
        return (
            self.is_built_in
            and len(values) > 0
            and values.device.type == "cpu"
            and not torch.is_autocast_enabled("cpu")
        )

    def prepare(self, input: Any) -> Tensor | Sets:
        """Any input as the tensor or Sets that this model takes, on its device; an error says what it takes."""
        weight = next(self.parameters())
        wants = self.config.input if self.config else None
        if isinstance(input, Sets) or (wants and wants.kind == "set"):
            return self._prepare_sets(input, wants).check_finite("input").to(weight.device, weight.dtype)
        try:
            given = input if isinstance(input, Tensor) else np.asarray(input)
        except ValueError as e:  # rows of different lengths
            raise UserError(f"this model takes {_describe(wants) if wants else 'numbers'}: {e}") from None
        if isinstance(given, np.ndarray) and given.dtype.kind not in "fiub":
            raise UserError(f"this model takes {_describe(wants) if wants else 'numbers'}, got {given.dtype}")
        exact = np.float64 if weight.dtype == torch.float64 else np.float32
        if wants and wants.kind in IMAGES and "int" in str(given.dtype):
            raise UserError(f"images are numbers from 0 to 1, got {given.dtype}: divide by 255")
        tensor = given if isinstance(given, Tensor) else torch.from_numpy(given.astype(exact))
        if wants:
            shape = (wants.size,) if wants.kind == "vector" else (3, wants.size, wants.size)
            if tuple(tensor.shape[1:]) != shape:
                raise UserError(f"this model takes {_describe(wants)}, got shape {tuple(tensor.shape)}")
        if not bool(torch.isfinite(tensor).all()):
            raise NotFinite("the input has values that are not finite")
        if wants and wants.kind in IMAGES and tensor.numel():
            if float(tensor.max()) > 2:
                raise UserError(f"images are numbers from 0 to 1, got up to {float(tensor.max()):g}: divide by 255")
            if float(tensor.min()) < -0.5:  # a little below 0 is what resizing may leave
                raise UserError(f"images are numbers from 0 to 1, not normalized, got {float(tensor.min()):g}")
        return tensor.to(weight.device, weight.dtype)

    def _prepare_sets(self, input: Any, wants: InputConfig | None) -> Sets:
        size = self.config.input_capacity if self.config and wants else None
        if isinstance(input, Sets):
            sets = input
        else:
            dtype = next(self.parameters()).dtype
            sets = Sets.from_list(input, max_size=size, features=wants.size if wants else None, dtype=dtype)
        if wants and (wants.kind != "set" or sets.elements.shape[2] != wants.size):
            raise UserError(f"this model takes {_describe(wants)}, got {sets!r}")
        if size is not None and (sets.sizes > size).any():
            raise UserError(f"this model takes sets of up to {size} elements, got one of {int(sets.sizes.max())}")
        if self.config and size is not None and not self.config.input_varies and (sets.sizes < size).any():
            raise UserError(f"this model takes sets of exactly {size} elements, got one of {int(sets.sizes.min())}")
        if size is not None and sets.elements.shape[1] > size:  # more padding than the capacity
            sets = sets.permute(sets.mask.float().argsort(dim=1, descending=True, stable=True))
            sets = Sets(sets.elements[:, :size], sets.mask[:, :size])
        if sets.mask.dtype == torch.bool:  # what a mask removes must not matter
            sets = Sets(sets.elements.masked_fill(~sets.mask[..., None], 0), sets.mask)
        return sets

    def save_pretrained(self, folder: str | Path) -> None:
        """Write `config.json` and `model.safetensors`, each atomically; the weights with a checksum."""
        if self.config is None:
            raise UserError("this model was put together by hand, so no config.json can be written for it; build it "
                            "with SetPredictor.from_config, or give SetPredictor(…, config=…)")  # fmt: skip
        folder = Path(folder)
        check_finite(self, self.state_dict(), "this model")
        with atomic(folder / WEIGHTS) as temporary:
            save_weights(self, temporary)
        write_text(folder / CONFIG, json.dumps(to_json(self.config), indent=2) + "\n")

    def to_onnx(
        self,
        path: str | Path,
        *,
        steps: int | None = None,
        trajectory: bool = False,
        task: SetTask | None = None,
        name: str | None = None,
    ) -> None:
        """Write the model as an ONNX file that takes batches of any size (extra `[export]`).

        Inputs are `input` (batch, …) and, for sets that differ in size, `input_mask`, a bool (batch, N). Outputs are
        `elements` (batch, N, D) and `mask` (batch, N): elements with a mask above 0.5 are present.

        Args:
            path: The file.
            steps: T, instead of the decoder's.
            trajectory: Write all sets from Y0 to YT, (T + 1, batch, N, D), and for decoders with a representation loss
                also `repr_loss`, (T + 1, batch).
            task: The description of the data, which the file then carries: names, units, categories.
            name: The model's name, which the file then carries.
        """
        export_predictor(self, path, steps, trajectory, task, name)

    @classmethod
    def from_pretrained(cls, folder: str | Path, device: str = "cpu", allow_own_code: bool = False) -> SetPredictor:
        """Load what `save_pretrained` wrote, of this version or an older one, in evaluation mode.

        Nothing in the files is executed, with one exception: an encoder or decoder of somebody's own (module:Class) is
        imported by name, and only if `allow_own_code` is set. The weights are verified by their checksum and must be
        finite. Before a model of built-in parts is allocated, its shapes are compared with those of the weights.
        """
        folder = Path(folder)
        inside = [] if (folder / WEIGHTS).is_file() else sorted(folder.glob(f"*/{WEIGHTS}"))
        if inside:
            raise UserError(f"{folder} is a run: load it with setpredict.load, or give {inside[0].parent}")
        config = read_config(folder / CONFIG)
        own = next((kind for kind in (config.encoder.kind, config.decoder.kind) if ":" in kind), None)
        if own and not allow_own_code:
            raise UserError(f"{folder / CONFIG} asks for the code {own!r}; if you trust it, pass allow_own_code=True")
        if not own:  # classes of somebody's own may not be able to be built without data
            _check_random_set(config, folder / WEIGHTS)
            check_header(partial(cls.from_config, config), folder / WEIGHTS, lambda m: partial(migrate_weights, m))
        model = cls.from_config(config)
        load_weights(model, folder / WEIGHTS, keep_precision=True, rename=partial(migrate_weights, model))
        return model.to(device).eval()


def read_config(path: Path) -> ModelConfig:
    """The model's configuration from a JSON file, or an error that names what is wrong in it."""
    if not path.is_file():
        raise UserError(f"{path} not found: is {path.parent} a saved model?")
    return from_json(ModelConfig, read_json(path), where=path.name)


def migrate_weights(model: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a file of any version under the names of this model."""
    known = model.state_dict()
    tensors = {renamed_weight(name, known): value for name, value in tensors.items()}
    for name, module in model.named_modules():
        if isinstance(module, RandomSet):
            tensors.setdefault(f"{name}.evaluation", module.version_1())
    return tensors


def _check_random_set(config: ModelConfig, weights: Path) -> None:
    """A random initial set is drawn when the model is built, from a shape that the weights must vouch for."""
    d = config.decoder
    drawn = d.initial in ("random", "input") if d.kind == "dspn" else d.kind in ("slots", "transformer")
    width = config.features if d.kind == "dspn" else d.width
    if drawn and weights.is_file() and 4 * config.max_size * width > max(weights.stat().st_size, 2**20):
        shape = f"{config.max_size} × {width}"
        raise UserError(f"{weights} does not fit the model: it is smaller than a random initial set of {shape} numbers")


def _describe(wants: InputConfig) -> str:
    return {
        "vector": f"vectors of {wants.size} numbers, shape (B, {wants.size})",
        **dict.fromkeys(IMAGES, f"images of shape (B, 3, {wants.size}, {wants.size})"),
        "set": f"sets whose elements have {wants.size} features",
    }[wants.kind]
