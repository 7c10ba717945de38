"""A device that is not the CPU, on a machine without a GPU: its tensors are held by the CPU, but do not mix with its.

`python -m tests.training.pretend_gpu` trains on it, in a process of its own, since PyTorch registers a device for good.
As on a GPU, an operation raises if one of its tensors is elsewhere, and NumPy and our CPU kernels cannot read the
tensors. It is slower than the CPU, and has no mixed precision and no fused LSTM.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.accelerators import Accelerator
from lightning_fabric.strategies import SingleDeviceStrategy
from rich.console import Console
from torch import Tensor
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "pretend"
aten = torch.ops.aten
MIXED = {aten._to_copy.default, aten.copy_.default, aten.index.Tensor, aten.index_put_.default, aten.index_put.default}
"""Operations that take tensors of the CPU on a GPU too."""


class PretendTensor(Tensor):
    """A tensor of the device; `held` has its data."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> PretendTensor:
        layout: dict[str, Any] = {"strides": held.stride(), "storage_offset": held.storage_offset()}
        made = Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype, device=device(), **layout)
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return call(func, args, kwargs or {})

    def numpy(self, **_: Any) -> Any:
        raise TypeError(f"can't convert a tensor of device {NAME} to numpy")

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def new_tensor(self, data: Any) -> Tensor:
        return torch.tensor(data, dtype=self.dtype, device=self.device)

    def __reduce_ex__(self, protocol: Any) -> Any:  # in a checkpoint, as if it came from the CPU
        return self.held.__reduce_ex__(protocol)

    def data_ptr(self) -> int:  # safetensors asks which tensors share memory
        return self.held.data_ptr()

    def untyped_storage(self) -> Any:
        return self.held.untyped_storage()


def call(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Compute an operation on the CPU whose tensors, or whose result, are on the device."""
    tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
    ours = any(isinstance(t, PretendTensor) for t in tensors)
    others = [tuple(t.shape) for t in tensors if not isinstance(t, PretendTensor) and t.dim() > 0]
    if ours and others and func not in MIXED:
        raise RuntimeError(f"{func}: expected all tensors on {NAME}, but those of shapes {others} are on the CPU")
    wanted = kwargs.get("device")
    on_device = ours if wanted is None else torch.device(wanted).type == NAME
    if func is aten.copy_.default:
        on_device = isinstance(args[0], PretendTensor)
    if wanted is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    args_held, kwargs_held = tree_map(lambda t: t.held if isinstance(t, PretendTensor) else t, (args, kwargs))
    out = func(*args_held, **kwargs_held)
    out = tree_map(lambda t: PretendTensor(t) if isinstance(t, Tensor) and on_device else t, out)
    return return_and_correct_aliasing(func, args, kwargs, out) if ours else out


class _Module:
    """What PyTorch expects at torch.pretend."""

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None: ...

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]


def device() -> torch.device:
    return torch.device(NAME, 0)


def register() -> torch.library.Library:
    """Add the device to PyTorch; it works as long as the returned object lives."""
    _setup_privateuseone_for_python_backend(NAME, _Module())
    library = torch.library.Library("_", "IMPL")
    library.fallback(lambda op, *args, **kwargs: call(op, args, kwargs), "PrivateUse1")
    plain = torch.tensor

    def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
        return plain(data, dtype=dtype).to(device or "cpu").requires_grad_(requires_grad)

    torch.tensor = tensor  # which would bypass the dispatcher
    torch.__future__.set_swap_module_params_on_conversion(True)  # as on a GPU, weights that move stay the same objects
    return library


class PretendAccelerator(Accelerator):
    """For Fabric."""

    def setup_device(self, device: torch.device) -> None: ...

    def teardown(self) -> None: ...

    @staticmethod
    def parse_devices(devices: Any) -> Any:
        return [0]

    @staticmethod
    def get_parallel_devices(devices: Any) -> list[torch.device]:
        return [device()]

    @staticmethod
    def auto_device_count() -> int:
        return 1

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def name() -> str:
        return NAME


def make_fabric(*_: Any) -> Fabric:
    return Fabric(accelerator=PretendAccelerator(), strategy=SingleDeviceStrategy(device=device()))


def train(folder: Path, name: str, method: Any, changes: dict[str, Any]) -> list[dict[str, str]]:
    """Train, resume, evaluate; returns the log."""
    from setpredict.presets import preset
    from setpredict.runs.evaluate import evaluate_run
    from setpredict.runs.folder import RunFolder
    from setpredict.runs.train import train_run
    from setpredict.studies.table import changed

    experiment, quiet = changed(preset(name, method, "small"), changes), Console(quiet=True)
    train_run(changed(experiment, {"train.max_steps": 2}), folder, console=quiet)
    train_run(experiment, folder, resume=True, console=quiet)
    evaluate_run(folder, console=quiet)
    return RunFolder(folder).read_log()


if __name__ == "__main__":
    library = register()
    import setpredict.runs.evaluate
    import setpredict.runs.train

    setpredict.runs.train.make_fabric = setpredict.runs.evaluate.make_fabric = make_fabric
    torch.set_num_threads(1)
    print(json.dumps(train(Path(sys.argv[1]), *json.loads(sys.argv[2]))))
