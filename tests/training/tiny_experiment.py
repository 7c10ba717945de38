"""A small experiment that trains in a second."""

from setpredict.config import (
    DataConfig,
    DecoderConfig,
    EncoderConfig,
    Experiment,
    GradientDescent,
    LossConfig,
    TrainConfig,
)


def tiny_experiment() -> Experiment:
    """Sets of 4 points through 8 numbers; 12 steps, validated at the 5th and 10th."""
    return Experiment(
        DataConfig("multisets", points=4, train=64, val=10, test=20),
        latent=8,
        encoder=EncoderConfig(hidden=(8,)),
        decoder=DecoderConfig(solver=GradientDescent(steps=2), hidden=(8, 8)),
        loss=LossConfig(masks="filter"),
        train=TrainConfig(
            max_steps=12, batch_size=8, val_every=5, save_every=3, log_every=2, ema=0.9, threads=1, pictures=False
        ),
    )
