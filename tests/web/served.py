"""Models small enough to answer at once, and a real server for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import torch
import uvicorn

from setpredict.config import DecoderConfig, EncoderConfig, Experiment, GradientDescent, InputConfig, ModelConfig
from setpredict.data.task import SetTask
from setpredict.model import SetPredictor
from setpredict.runs.loaded import LoadedRun
from setpredict.web.catalog import Served
from setpredict.web.limits import Limits
from setpredict.web.server import create_app, settings


def tiny(name: str, task: SetTask, decoder: str = "dspn", steps: int = 3) -> Served:
    """An untrained model for a task."""
    torch.manual_seed(0)
    kind = "resnet" if task.input_kind == "image" else task.input_kind
    config = ModelConfig(
        task.max_size,
        task.features,
        task.variable,
        latent=8,
        input=InputConfig(kind, task.input_size, hidden=(8,), depth=18, width=2, dense=decoder == "dense"),
        encoder=EncoderConfig(hidden=(8,)),
        decoder=DecoderConfig(decoder, GradientDescent(steps=steps, step_size=1.0), hidden=(8, 8)),
        elements=task.kind,
        groups=dict(task.groups),
    )
    model = SetPredictor.from_config(config).eval()
    experiment = Experiment(latent=8, input=config.input, encoder=config.encoder, decoder=config.decoder)
    run = LoadedRun(name, model, task, experiment)
    run.data = task  # this task, not one made from the experiment's settings
    return Served(name, name.partition("-")[0], run, "test")


class Running:
    """A server in a thread, on a free port unless one is given."""

    def __init__(
        self,
        models: dict[str, Served],
        limits: Limits | None = None,
        hosts: Sequence[str] = (),
        address: str = "127.0.0.1",
        port: int = 0,
    ):
        self.address = address
        self.server = uvicorn.Server(settings(create_app(models, limits, hosts), limits, host=address, port=port))
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    def __enter__(self) -> str:
        self.thread.start()
        while not self.server.started:
            time.sleep(0.01)
        return f"http://{self.address}:{self.server.servers[0].sockets[0].getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(timeout=10)
