"""Data and metrics for the tests over batches and over ranks; a module of its own, since spawned ranks import it."""

import torch
import torch.distributed as dist
from torch import Tensor

from setpredict.metrics import (
    BoxAveragePrecision,
    SetDistance,
    SetSizeAccuracy,
    StateAveragePrecision,
)
from setpredict.sets import Sets


def make_data(images: int = 41, N: int = 6) -> tuple[Sets, Sets]:
    """States of which some are right, with scores full of ties; their first four numbers serve as boxes."""
    g = torch.Generator().manual_seed(0)
    targets = torch.zeros(images, N, 18)
    targets[..., :2] = torch.rand(images, N, 2, generator=g) / 4
    targets[..., 2] = 0.5 + torch.rand(images, N, generator=g) / 4
    for start, classes in ((3, 2), (5, 8), (13, 3), (16, 2)):
        kind = torch.randint(0, 2, (images, N, 1), generator=g) % classes
        targets[..., start : start + classes].scatter_(-1, kind, 1.0)
    mask = torch.rand(images, N, generator=g) < 0.7
    predicted = targets + 0.05 * torch.randn(images, N, 18, generator=g)
    scores = torch.randint(-1, 4, (images, N), generator=g) / 2
    return Sets(predicted, scores), Sets(targets * mask[..., None], mask)


def number(value: Tensor) -> float | list[float]:
    return value.tolist()


def all_metrics(data: tuple[Sets, Sets], batches: list[Tensor], with_index: bool = True) -> dict:
    """Every metric of the images in `batches`, as plain numbers, exchanged over ranks where there are some."""
    predicted, target = data
    state = {
        "state": StateAveragePrecision(),
        "chamfer": SetDistance("chamfer"),
        "hungarian": SetDistance("hungarian"),
        "size": SetSizeAccuracy(),
    }
    box = BoxAveragePrecision()
    for batch in batches:
        index = batch if with_index else None
        a, b = predicted[batch], target[batch]
        for metric in state.values():
            metric.update(a, b, index)
        box.update(Sets(a.elements[..., :4], a.mask), Sets(b.elements[..., :4], b.mask), index)
    found = {"box": box.compute(), **{k: m.compute() for k, m in state.items()}}
    found.update(found.pop("size"))
    return {k: number(v) for k, v in found.items()}


def rank_main(rank: int, world: int, folder: str) -> None:
    """One rank: first most images on rank 1, out of order; then none at all on rank 0."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world)
    data = make_data()
    order = torch.randperm(len(data[0]), generator=torch.Generator().manual_seed(1))
    uneven = order[:5] if rank == 0 else order[5:]
    found = [all_metrics(data, list(uneven.split(7))), all_metrics(data, [order] if rank else [])]
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()
