"""Processes and devices: metrics of one process, numbers of threads, and batches that fit into a GPU."""

import pytest
import torch
from lightning_fabric import Fabric
from torchmetrics import SumMetric

from setpredict.config import TrainConfig
from setpredict.training.devices import launch, shared
from setpredict.training.evaluation import batch_size_for


def test_a_process_that_trained_with_others_can_measure_alone(monkeypatch):
    """Torchmetrics gathers the numbers of all processes wherever there are any: others would have to take part."""
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)

    def gather(*_, **__):
        raise AssertionError("other processes are asked")

    for made, alone in ((shared(SumMetric(dist_sync_fn=gather), Fabric(accelerator="cpu", devices=1)), True),
                        (SumMetric(dist_sync_fn=gather), False)):  # fmt: skip
        made.update(3.0)
        if alone:
            assert made.compute() == 3
        else:
            with pytest.raises(AssertionError, match="other processes are asked"):
                made.compute()


def test_processes_have_the_threads_that_were_asked_for(monkeypatch):
    before = torch.get_num_threads()
    fabric = Fabric(accelerator="cpu", devices=1)
    monkeypatch.setattr(fabric, "launch", lambda: torch.set_num_threads(4))  # as for several processes
    try:
        launch(fabric, 2)
        assert torch.get_num_threads() == 2
        launch(fabric, None)
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(("device", "trained", "expected"), [("cpu", 8, 128), ("cuda", 8, 8), ("cuda", 512, 128)])
def test_batches_of_an_evaluation_fit_where_those_of_training_do(device: str, trained: int, expected: int):
    assert batch_size_for(torch.device(device), TrainConfig(batch_size=trained)) == expected
