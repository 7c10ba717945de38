"""What two processes do, started by torchrun from the tests: train two steps, evaluate, and save the results."""

import sys
from pathlib import Path

import torch

from setpredict.build import make_loss, make_task
from setpredict.config import (
    DataConfig,
    DecoderConfig,
    EncoderConfig,
    Experiment,
    GradientDescent,
    Implicit,
    InputConfig,
    LossConfig,
    TrainConfig,
)
from setpredict.model import SetPredictor
from setpredict.resolve import model_config
from setpredict.training.devices import launch, make_fabric
from setpredict.training.evaluation import evaluate
from setpredict.training.loop import TrainState, fit, share_buffers


def experiment(decoder: str, batch_size: int) -> Experiment:
    """Variable sets, whose last evaluation batch is uneven: 21 samples in batches of 4 over 2 processes."""
    data = DataConfig("multisets", points=4, variable=True, train=32, val=10, test=21)
    train = TrainConfig(max_steps=2, batch_size=batch_size, threads=1, seed=3)
    if decoder in ("image", "warm-up", "dense", "slots on images"):  # batch norms have statistics per process
        data = DataConfig("scenes", size=64, max_objects=3, train=32, val=10, test=21)
        train.ema = 0.5
    kinds = {
        "dspn": DecoderConfig(solver=GradientDescent(steps=3), hidden=(8, 8)),
        "idspn": DecoderConfig(
            solver=GradientDescent(steps=3, step_size=1.0, momentum=0.9, nesterov=True, clip_norm=10.0),
            gradient=Implicit(), loss="squared", mask="free", initial="random",
        ),
        "slots": DecoderConfig("slots", GradientDescent(steps=2), width=8, hidden=(8,)),
        "transformer": DecoderConfig(
            "transformer", GradientDescent(steps=2), width=8, heads=2, hidden=(8,), queries="random"
        ),
        "slots on images": DecoderConfig("slots", GradientDescent(steps=2), width=8, hidden=(8,)),
        "mlp": DecoderConfig("mlp", hidden=(8, 8)),
        "image": DecoderConfig("mlp", hidden=(8, 8)),
        "warm-up": DecoderConfig(solver=GradientDescent(steps=2), initial="dense", step_scale="learned"),
        "dense": DecoderConfig("dense"),
    }  # fmt: skip
    warmup = int(decoder in ("warm-up", "slots on images"))
    input = InputConfig("conv", widths=(4, 4, 6), warmup=warmup)
    parts = {"input": input, "encoder": EncoderConfig(hidden=(8,)), "decoder": kinds[decoder]}
    return Experiment(data, latent=8, **parts, loss=LossConfig(dense=float(decoder == "dense")), train=train)


def main(out: Path, decoder: str, batch_size: int) -> None:
    e = experiment(decoder, batch_size)
    fabric = make_fabric(e.train)
    launch(fabric)
    torch.manual_seed(0)
    task = make_task(e.data)
    loss = make_loss(e.loss, task)
    state = TrainState.fresh(fabric, SetPredictor.from_config(model_config(e, task)), e.train)
    fit(fabric, state, task, e.train, loss, warmup=e.input.warmup or 0)
    share_buffers(fabric, state)
    models = {"model": state.model, "average": state.average}
    found = {
        "weights": {n: p.detach() for n, p in state.model.named_parameters()},
        "moments": {n: state.optimizer.state[p]["exp_avg"] for n, p in state.model.named_parameters()},
        "buffers": {f"{k}.{n}": b for k, m in models.items() if m is not None for n, b in m.named_buffers()},
        "metrics": evaluate(fabric, state.model, task, loss, "test", batch_size=4).metrics,
    }
    torch.save(found, out / f"{fabric.global_rank}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
