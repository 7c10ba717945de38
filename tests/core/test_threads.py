"""Our thread pool: every item once, one torch thread per worker, the caller's modes, errors, forks."""

import multiprocessing
import os
import subprocess
import sys
import threading

import pytest
import torch

from setpredict.core.threads import alone, parallel_for, parallel_map, workers
from setpredict.decoders import DSPN
from setpredict.encoders import DeepSetEncoder


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_every_item_once(three_threads, count):
    seen = []
    parallel_for(count, lambda start, stop, worker: seen.extend(range(start, stop)))
    assert sorted(seen) == list(range(count)), "parallel_for"
    seen.clear()
    parallel_map(count, lambda item, worker: seen.append(item))
    assert sorted(seen) == list(range(count)), "parallel_map"


@pytest.mark.parametrize(("min_items", "parts"), [(1, 3), (2, 3), (3, 2), (4, 1), (100, 1)])
def test_parts_have_at_least_min_items(three_threads, min_items, parts):
    sizes = []
    parallel_for(7, lambda start, stop, worker: sizes.append(stop - start), min_items)
    assert (sum(sizes), len(sizes)) == (7, parts)
    assert min(sizes) >= min(min_items, 7)


def test_workers_have_numbers_and_one_torch_thread(three_threads):
    met = []

    def record(item, worker):
        met.append((worker, torch.get_num_threads(), workers(9), threading.get_ident()))

    parallel_map(6, record)
    assert {worker for worker, *_ in met} == {0, 1, 2}
    assert {(threads, nested) for _, threads, nested, _ in met} == {(1, 1)}
    assert threading.get_ident() not in {ident for *_, ident in met}
    assert torch.get_num_threads() == 3
    fresh = []
    thread = threading.Thread(target=lambda: fresh.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert fresh == [3]  # threads started elsewhere keep their number


def test_the_callers_modes(three_threads):
    seen = []

    def look(item, worker):
        seen.append((torch.is_grad_enabled(), torch.is_inference_mode_enabled()))

    parallel_map(3, look)
    assert set(seen) == {(False, False)}
    seen.clear()
    with torch.inference_mode():
        parallel_map(3, look)
    assert set(seen) == {(False, True)}


def test_an_error_is_raised_when_all_items_are_done(three_threads):
    done = []

    def work(item, worker):
        if item == 0:
            raise ValueError("item 0 is broken")
        done.append(item)

    with pytest.raises(ValueError, match="item 0 is broken"):
        parallel_map(3, work)
    assert sorted(done) == [1, 2]
    with pytest.raises(ValueError, match="item 0 is broken"):
        parallel_for(3, lambda start, stop, worker: work(start, worker))


def test_nested_work_does_not_wait_for_itself(three_threads):
    seen = []
    parallel_map(3, lambda item, worker: parallel_for(5, lambda start, stop, _: seen.append(stop - start)))
    assert sum(seen) == 15


def test_one_thread_stays_in_the_caller():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        seen = []
        parallel_map(2, lambda item, worker: seen.append(threading.get_ident()))
        assert set(seen) == {threading.get_ident()}
    finally:
        torch.set_num_threads(before)


def test_alone_torch_has_one_thread_and_there_are_as_many_workers(three_threads):
    met = []

    def use_all_workers() -> None:
        with alone():
            assert (torch.get_num_threads(), workers(9)) == (1, 3)
            parallel_map(6, lambda item, worker: met.append(worker))
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        use_all_workers()
    assert set(met) == {0, 1, 2}
    assert (torch.get_num_threads(), workers(9)) == (3, 3)


@pytest.mark.parametrize("trained", [True, False])
def test_a_backward_pass_leaves_torch_its_threads(three_threads, trained):
    """Steps are computed with one thread of torch, and what computed z with all of them."""
    seen, z = {}, torch.randn(64, 16, requires_grad=trained)

    def watched(elements: torch.Tensor) -> torch.Tensor:
        seen["forward"] = torch.get_num_threads()
        elements = elements * 1
        elements.register_hook(lambda grad: seen.update(steps=torch.get_num_threads()))  # the last is the first step
        return elements

    prediction = DSPN(DeepSetEncoder(2, 16, 64, hidden=(32, 32)), project=watched)(z)
    assert torch.get_num_threads() == 3
    if trained:
        z.register_hook(lambda grad: seen.update(z=torch.get_num_threads()))
    prediction.final.elements.sum().backward()
    assert seen == {"forward": 1, "steps": 1} | ({"z": 3} if trained else {})
    assert torch.get_num_threads() == 3


def test_an_interrupted_backward_pass_costs_the_threads_until_the_next_decoding(three_threads):
    decoder = DSPN(DeepSetEncoder(2, 16, 64, hidden=(32, 32)))
    prediction = decoder(torch.randn(64, 16))

    def interrupt(grad):
        raise KeyboardInterrupt

    decoder.get_parameter("initial.values").register_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        prediction.elements.sum().backward()
    with torch.no_grad():
        decoder(torch.randn(64, 16))
    assert (torch.get_num_threads(), workers(9)) == (3, 3)


def _in_child(queue):
    seen = []
    parallel_for(4, lambda start, stop, worker: seen.extend(range(start, stop)))
    queue.put(sorted(seen))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system has no fork")
def test_a_forked_child_starts_its_own_threads(three_threads):
    parallel_for(4, lambda start, stop, worker: None)  # starts the parent's threads
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    try:
        assert queue.get(timeout=30) == [0, 1, 2, 3]
    finally:
        child.kill()


def test_torch_compile_calls_kernels_as_they_are(tmp_path):
    """Also when numba has not compiled them yet."""
    code = """if True:
        import torch
        from setpredict import Sets, chamfer_loss
        a = Sets(torch.rand(2, 5, 2), torch.ones(2, 5).bool())
        compiled = torch.compile(lambda x: chamfer_loss(Sets(x, a.mask), a).sum(), backend="eager")
        assert compiled(a.elements + 0.1).item() > 0
    """
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
