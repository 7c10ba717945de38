"""An experiment: all options that decide a run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from setpredict.config.data import DataConfig
from setpredict.config.model import DecoderConfig, EncoderConfig, InputConfig
from setpredict.config.training import LossConfig, TrainConfig


@dataclass
class Experiment:
    """Everything that decides a run: the content of its `config.json`."""

    data: DataConfig = field(default_factory=DataConfig)
    latent: int | None = 64
    """L, the length of the vector that is decoded (None: chosen for the data)."""
    coordinates: float | None = None
    """How much larger numbers (all features outside of categories) are made for the decoder and the set loss, so that
    they count beside masks and categories; results stay in the data's own units (None: 5 for boxes and
    for your own data, else 1)."""
    input: InputConfig = field(default_factory=InputConfig)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    train: Annotated[TrainConfig, arg(name="")] = field(default_factory=TrainConfig)

    def located(self) -> Experiment:
        """The same experiment with an absolute data folder: a run may be opened from another working directory."""
        if self.data.folder is None:
            return self
        folder = Path(self.data.folder).expanduser().absolute()
        return replace(self, data=replace(self.data, folder=str(folder)))
