"""Data and metrics for the tests over batches and ranks; a separate module, since spawned ranks import it."""

import torch
import torch.distributed as dist
from examples import CLEVR
from torch import Tensor

from setpredict.metrics import (
    BoxAveragePrecision,
    SetDistance,
    SetSizeAccuracy,
    StateAveragePrecision,
)
from setpredict.sets import Sets


def make_data(images: int = 41, N: int = 6) -> tuple[Sets, Sets]:
    """CLEVR states, some predicted well, with scores full of ties; their first four features also serve as boxes."""
    g = torch.Generator().manual_seed(0)
    targets = torch.zeros(images, N, 18)
    targets[..., :2] = torch.rand(images, N, 2, generator=g) / 4
    targets[..., 2] = 0.5 + torch.rand(images, N, generator=g) / 4
    for start, stop in CLEVR["groups"].values():
        chosen = torch.randint(0, 2, (images, N, 1), generator=g)  # two classes of each group
        targets[..., start:stop].scatter_(-1, chosen, 1.0)
    mask = torch.rand(images, N, generator=g) < 0.7
    predicted = targets + 0.05 * torch.randn(images, N, 18, generator=g)
    scores = torch.randint(-1, 4, (images, N), generator=g) / 2
    return Sets(predicted, scores), Sets(targets * mask[..., None], mask)


def all_metrics(data: tuple[Sets, Sets], batches: list[Tensor], with_index: bool = True) -> dict:
    """Every metric of the images in `batches`, as plain numbers, synchronized over ranks if there are several."""
    predicted, target = data
    state = {
        "state": StateAveragePrecision(**CLEVR),
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
    return {k: v.tolist() for k, v in found.items()}


def rank_main(rank: int, world: int, folder: str) -> None:
    """One rank of two: first with most images on rank 1, out of order; then with none on rank 0."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world)
    data = make_data()
    order = torch.randperm(len(data[0]), generator=torch.Generator().manual_seed(1))
    uneven = order[:5] if rank == 0 else order[5:]
    found = [all_metrics(data, list(uneven.split(7))), all_metrics(data, [order] if rank else [])]
    torch.save(found, f"{folder}/{rank}.pt")
    dist.destroy_process_group()
