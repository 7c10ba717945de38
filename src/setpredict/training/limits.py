"""The limits that end a training, as text."""

from __future__ import annotations

from setpredict.config import TrainConfig

ENDLESS = 10**6
"""So many epochs, beside a limit in steps or minutes, mean that the epochs do not limit a training."""


def limits_of(train: TrainConfig) -> dict[str, float]:
    """The limits of a training by option; epochs that stand for none are left out.

    >>> limits_of(TrainConfig(epochs=ENDLESS, max_minutes=15.0))
    {'--max-minutes': 15.0}
    """
    limits = {"--epochs": train.epochs, "--max-steps": train.max_steps, "--max-minutes": train.max_minutes}
    found = {option: limit for option, limit in limits.items() if limit is not None}
    if train.epochs >= ENDLESS and len(found) > 1:
        del found["--epochs"]
    return found


def ended_by(train: TrainConfig, step: int, seconds: float, epochs: float) -> str:
    """Which limit ended a training that has taken this many steps, seconds and epochs.

    >>> train = TrainConfig(epochs=2, max_minutes=3.5)
    >>> ended_by(train, step=20, seconds=60.0, epochs=2.0)
    '--epochs 2 (after 1.0 of --max-minutes 3.5)'
    """
    reached, others = [], []
    used = {"--epochs": epochs, "--max-steps": step, "--max-minutes": seconds / 60}
    for option, limit in limits_of(train).items():
        if used[option] >= limit:
            reached.append(f"{option} {_number(limit)}")
        else:
            shown = f"{used[option]:.1f}" if option != "--max-steps" else _number(step)
            others.append(f"{shown} of {option} {_number(limit)}")
    if not reached:
        return f"--patience {train.patience}"
    return " and ".join(reached) + (f" (after {', '.join(others)})" if others else "")


def _number(value: float) -> str:
    """As people write it: no 1e+06."""
    return f"{value:d}" if isinstance(value, int) else f"{value:g}"
