"""A plain implementation of the paper's method, as its reader would write it: what ours is timed against.

1×1 convolutions, `autograd.grad(create_graph=True)` in a loop, Chamfer over the full broadcast tensor, one scipy call
per sample, Python loops over images. Nothing here is slow on purpose; it is a straightforward first version.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from setpredict.encoders import DeepSetEncoder, RelationEncoder


class PlainFSPool(nn.Module):
    """Sort each channel of (B, C, N) in descending order and weight the ranks, piecewise linearly between the knots."""

    def __init__(self, channels: int, pieces: int = 20):
        super().__init__()
        self.pieces = pieces
        self.weight = nn.Parameter(torch.randn(channels, pieces + 1))

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[2]
        position = torch.arange(n, dtype=x.dtype, device=x.device) / max(n - 1, 1) * self.pieces
        left = position.floor().long()
        right = (left + 1).clamp(max=self.pieces)
        fraction = position - left
        weight = (1 - fraction) * self.weight[:, left] + fraction * self.weight[:, right]  # (C, N)
        ordered, _ = x.sort(dim=2, descending=True)
        return (ordered * weight).sum(dim=2)  # (B, C)


class PlainDeepSets(nn.Module):
    """[y, m] → 256 → 256 → 64 for every element, divided by N, then FSPool."""

    def __init__(self, features: int, latent: int, hidden: tuple[int, int] = (256, 256)):
        super().__init__()
        self.network = nn.Sequential(
            nn.Conv1d(features + 1, hidden[0], 1),
            nn.ReLU(),
            nn.Conv1d(hidden[0], hidden[1], 1),
            nn.ReLU(),
            nn.Conv1d(hidden[1], latent, 1),
        )
        self.pool = PlainFSPool(latent)

    def forward(self, elements: Tensor, mask: Tensor) -> Tensor:
        x = torch.cat([elements, mask[:, None]], dim=1)  # (B, D+1, N)
        return self.pool(self.network(x) / x.shape[2])


class PlainRelation(nn.Module):
    """All ordered pairs of [y, m] → 512 → 512, divided by N², then FSPool over the pairs."""

    def __init__(self, features: int, latent: int, hidden: int = 512):
        super().__init__()
        self.network = nn.Sequential(nn.Conv2d(2 * (features + 1), hidden, 1), nn.ReLU(), nn.Conv2d(hidden, latent, 1))
        self.pool = PlainFSPool(latent)

    def forward(self, elements: Tensor, mask: Tensor) -> Tensor:
        x = torch.cat([elements, mask[:, None]], dim=1)
        B, C, N = x.shape
        first = x[:, :, :, None].expand(B, C, N, N)
        second = x[:, :, None, :].expand(B, C, N, N)
        pairs = torch.cat([first, second], dim=1)  # (B, 2C, N, N)
        return self.pool(self.network(pairs).flatten(2) / N**2)


class PlainDSPN(nn.Module):
    """Algorithm 1. The inner loss is averaged over batch and latent, so the step size is 25 × batch."""

    def __init__(
        self,
        encoder: PlainDeepSets | PlainRelation,
        max_size: int,
        features: int,
        steps: int = 10,
        step_size: float = 25.0,
    ):
        super().__init__()
        self.encoder, self.steps, self.step_size = encoder, steps, step_size
        self.start = nn.Parameter(torch.rand(features, max_size))
        self.start_mask = nn.Parameter(torch.full((max_size,), 0.5))

    def forward(self, z: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """The trajectory: every set (B, D, N) and mask (B, N), differentiable if gradients are enabled."""
        training = torch.is_grad_enabled()
        with torch.enable_grad():
            y = self.start.expand(len(z), *self.start.shape)
            m = self.start_mask.expand(len(z), -1).clamp(0, 1)
            if not training:
                y, m = y.detach(), m.detach()
            sets, masks = [y], [m]
            for _ in range(self.steps):
                y, m = (y, m) if y.requires_grad else (y.requires_grad_(), m.requires_grad_())
                loss = F.smooth_l1_loss(self.encoder(y, m), z)
                dy, dm = torch.autograd.grad(loss, (y, m), create_graph=training)
                rate = self.step_size * len(z)
                y, m = y - rate * dy, (m - rate * dm).clamp(0, 1)
                if not training:
                    y, m = y.detach(), m.detach()
                sets.append(y)
                masks.append(m)
        return sets, masks


def chamfer(predicted: Tensor, target: Tensor) -> Tensor:
    """Predicted (S, B, C, N) against target (B, C, N): all pairs at once, the nearest in both directions, averaged."""
    a = predicted[..., :, None].expand(*predicted.shape, target.shape[-1])
    b = target[None, ..., None, :].expand_as(a)
    cost = F.smooth_l1_loss(a, b, reduction="none").mean(dim=2)  # (S, B, N, N)
    return cost.min(dim=2).values.mean() + cost.min(dim=3).values.mean()


def hungarian(predicted: Tensor, target: Tensor) -> Tensor:
    """Predicted (S, B, C, N) against target (B, C, N): the cheapest assignment, one scipy call per sample."""
    a = predicted[..., :, None].expand(*predicted.shape, target.shape[-1])
    b = target[None, ..., None, :].expand_as(a)
    cost = F.smooth_l1_loss(a, b, reduction="none").mean(dim=2)  # (S, B, N, N)
    total = []
    for matrix in cost.flatten(0, 1):
        rows, columns = linear_sum_assignment(matrix.detach().cpu().numpy())
        total.append(matrix[rows, columns].mean())
    return torch.stack(total).mean()


def average_precision(
    states: np.ndarray,
    scores: np.ndarray,
    targets: np.ndarray,
    present: np.ndarray,
    thresholds: tuple[float, ...],
    groups: list[tuple[int, int]],
) -> list[float]:
    """AP of (I, N, 18) states at each distance: image by image, then all detections pooled by score."""
    detections = []
    for i in range(len(states)):
        candidates, distances = _candidates(states[i], targets[i][present[i]], groups)
        for k in range(states.shape[1]):
            detections.append((-float(scores[i, k]), i, k, int(candidates[k]), float(distances[k])))
    detections.sort()
    results = []
    for threshold in thresholds:
        taken, true = set(), []
        for _, i, _, candidate, distance in detections:
            hit = candidate >= 0 and distance <= threshold and (i, candidate) not in taken
            if hit:
                taken.add((i, candidate))
            true.append(hit)
        results.append(_area(true, int(present.sum())))
    return results


def _candidates(
    states: np.ndarray, targets: np.ndarray, groups: list[tuple[int, int]]
) -> tuple[np.ndarray, np.ndarray]:
    """The nearest target of its class for every state of one image (−1: none), and its distance."""
    if len(targets) == 0:
        return np.full(len(states), -1), np.full(len(states), np.inf)
    difference = states[:, None, :3].astype(np.float64) - targets[None, :, :3].astype(np.float64)
    distances = 3 * np.linalg.norm(difference, axis=2)  # (N, M)
    for start, stop in groups:
        classes, target_classes = states[:, start:stop].argmax(axis=1), targets[:, start:stop].argmax(axis=1)
        distances[classes[:, None] != target_classes] = np.inf
    nearest = distances.argmin(axis=1)
    best = distances[np.arange(len(states)), nearest]
    return np.where(np.isfinite(best), nearest, -1), best


def _area(true: list[bool], ground_truths: int) -> float:
    """The area under the precision-recall curve, each precision raised to the highest at that or a larger recall."""
    found, precision = 0, []
    for rank, hit in enumerate(true, start=1):
        found += hit
        precision.append(found / rank)
    area, highest = 0.0, 0.0
    for hit, value in zip(reversed(true), reversed(precision)):
        highest = max(highest, value)
        area += highest * hit
    return area / ground_truths


def copy_encoder(
    ours: DeepSetEncoder | RelationEncoder, plain: PlainDeepSets | PlainRelation, reverse: bool = False
) -> None:
    """Copy our encoder's weights to the plain one, or with `reverse` the plain one's to ours."""
    with torch.no_grad():
        for a, b in zip(ours.parameters(), plain.parameters(), strict=True):
            a.copy_(b.view_as(a)) if reverse else b.copy_(a.view_as(b))
