"""Small experiments that train in a second."""

from pathlib import Path

import pytest

from setpredict.config import DecoderConfig, EncoderConfig, LossConfig, TrainConfig
from setpredict.presets import DataConfig, Experiment


@pytest.fixture
def tiny() -> Experiment:
    """Sets of 4 points through 8 numbers; 12 steps, validated at the 5th and 10th."""
    return Experiment(
        DataConfig("multisets", points=4, train=64, val=10, test=20),
        latent=8,
        encoder=EncoderConfig(hidden=(8,)),
        decoder=DecoderConfig(steps=2, hidden=(8, 8)),
        loss=LossConfig(masks="filter"),
        train=TrainConfig(
            max_steps=12, batch_size=8, val_every=5, save_every=3, log_every=2, ema=0.9, threads=1, pictures=False
        ),
    )


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "tiny"
