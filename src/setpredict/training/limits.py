"""The limits that end a training, as text."""

from __future__ import annotations

from setpredict.config import TrainConfig


def ended_by(train: TrainConfig, step: int, seconds: float, batches: int) -> str:
    """Which limit ended a training that has taken this many steps and seconds, with `batches` per epoch.

    >>> train = TrainConfig(epochs=2, max_minutes=3.5)
    >>> ended_by(train, step=20, seconds=60.0, batches=10)
    '--epochs 2 (after 1.0 of --max-minutes 3.5)'
    """
    reached, others = [], []
    limits = [
        ("--epochs", train.epochs, step * train.accumulate / max(batches, 1)),
        ("--max-steps", train.max_steps, step),
        ("--max-minutes", train.max_minutes, seconds / 60),
    ]
    for option, limit, used in limits:
        if limit is not None and used >= limit:
            reached.append(f"{option} {limit:g}")
        elif limit is not None:
            shown = f"{used:.1f}" if option != "--max-steps" else f"{used:g}"
            others.append(f"{shown} of {option} {limit:g}")
    if not reached:
        return f"--patience {train.patience}"
    return " and ".join(reached) + (f" (after {', '.join(others)})" if others else "")
