"""What two processes do, started by torchrun from the tests: train one step, evaluate, and leave the answers."""

import sys
from pathlib import Path

import torch

from setpredict.config import DecoderConfig, EncoderConfig, InputConfig, LossConfig, TrainConfig
from setpredict.model import SetPredictor
from setpredict.presets import DataConfig, Experiment, make_task
from setpredict.training.devices import make_fabric
from setpredict.training.evaluation import evaluate
from setpredict.training.loop import TrainState, fit, share_buffers


def experiment(decoder: str, batch_size: int) -> Experiment:
    """Variable sets, whose last evaluation batch is uneven: 21 samples in batches of 4 over 2 processes."""
    data = DataConfig("multisets", points=4, variable=True, train=32, val=10, test=21)
    train = TrainConfig(max_steps=2, batch_size=batch_size, threads=1, seed=3)
    if decoder == "image":  # batch norms, whose statistics each process gathers from its own batches
        data = DataConfig("scenes", size=64, max_objects=3, train=32, val=10, test=21)
        train.ema = 0.5
    kinds = {
        "dspn": DecoderConfig(steps=3, hidden=(8, 8)),
        "idspn": DecoderConfig(
            steps=3, step_size=1.0, loss="squared", momentum=0.9, nesterov=True, clip_norm=10.0, mask="free",
            initial="random", backprop_steps=1, implicit=True,
        ),
        "mlp": DecoderConfig("mlp", hidden=(8, 8)),
        "image": DecoderConfig("mlp", hidden=(8, 8)),
    }  # fmt: skip
    parts = {"input": InputConfig(depth=10, width=2), "encoder": EncoderConfig(hidden=(8,)), "decoder": kinds[decoder]}
    return Experiment(data, latent=8, **parts, loss=LossConfig(), train=train)


def main(out: Path, decoder: str, batch_size: int) -> None:
    e = experiment(decoder, batch_size)
    fabric = make_fabric(e.train)
    fabric.launch()
    torch.manual_seed(0)
    task = make_task(e.data)
    state = TrainState.fresh(fabric, SetPredictor.from_config(e.model(task)), e.train)
    fit(fabric, state, task, e.train, e.loss)
    share_buffers(fabric, state)
    moments = [state.optimizer.state[p]["exp_avg"] for p in state.model.parameters()]
    seen = evaluate(fabric, state.model, task, e.loss, "test", batch_size=4)
    weights = [p.detach() for p in state.model.parameters()]
    buffers = [b for model in (state.model, state.average) if model is not None for b in model.buffers()]
    found = {"weights": weights, "buffers": buffers, "moments": moments, "metrics": seen.metrics}
    torch.save(found, out / f"{fabric.global_rank}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
