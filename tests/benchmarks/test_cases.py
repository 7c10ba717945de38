"""The cases of `python -m benchmarks`: both sides agree, and the page shows the results files. No time is asserted."""

import os
from pathlib import Path

import pytest
import torch

from benchmarks import cases, page, scaling
from benchmarks.__main__ import MEMORY
from benchmarks.baseline import PlainFSPool
from benchmarks.loading import waiting
from benchmarks.machine import decoding_flops, training_flops
from benchmarks.profile import shares
from benchmarks.timing import alternately
from setpredict.encoders import FSPool

ROOT = Path(__file__).parents[2]
SMALL = {name: {"images": 40} if name == "average_precision" else {"batch": 2} for name in cases.CASES}


@pytest.mark.parametrize("name", cases.CASES)
def test_both_sides_agree_and_every_workload_runs(name):
    case = getattr(cases, name)(**SMALL[name])
    assert case.check() <= case.tolerance
    assert {workload for pair in case.ratios.values() for workload in pair} == set(case.workloads)
    assert set(case.flops) <= set(page.RATES), "a rate that the page does not show"
    for workload in case.workloads.values():
        workload()


def test_workloads_alternate_after_a_warm_up():
    calls = []
    times = alternately({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=2)
    assert "".join(calls) == "ab" + "abab"
    assert set(times) == {"a", "b"}
    assert max(times.values()) < float("inf")


def test_every_bar_is_measured():
    ratios = [key for name in cases.CASES for key in getattr(cases, name)(**SMALL[name]).ratios]
    assert sorted([*ratios, *MEMORY]) == sorted(page.BARS)


def test_average_precision_agrees_to_rounding():
    assert cases.average_precision(images=40).check() < 1e-9


def test_the_check_detects_a_difference():
    a, b = torch.ones(3), torch.tensor([1.0, 1.0, 1.1])
    assert cases.difference([a, a], [a, b]) == pytest.approx(0.1 / b.norm().item(), rel=1e-4)


def test_plain_fspool_is_fspool():
    torch.manual_seed(0)
    ours, plain = FSPool(4), PlainFSPool(4)
    plain.weight = ours.weight
    for n in (1, 2, 17):
        x = torch.randn(3, n, 4)
        torch.testing.assert_close(plain(x.transpose(1, 2)), ours(x), msg=lambda m, n=n: f"{n} elements: {m}")


def test_weights_are_copied_in_both_directions():
    ours = cases.DSPN(cases.DeepSetEncoder(2, 8, 5, hidden=(256, 256)))
    plain = cases.baseline.PlainDSPN(cases.baseline.PlainDeepSets(2, 8), 5, 2)
    cases.copy_decoder(ours, plain)
    again = cases.DSPN(cases.DeepSetEncoder(2, 8, 5))
    cases.copy_decoder(again, plain, reverse=True)
    for name, value in ours.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name


def test_flops_of_a_small_network_by_hand():
    # 5 rows of 2 → 3 → 1: one pass is 2·5·(2·3 + 3·1) = 90; B = 1, T = 1
    assert training_flops(1, 1, 5, [2, 3, 1], encode=False) == 90 * (3 + 3 + 1)
    assert training_flops(4, 3, 5, [2, 3, 1], encode=True) == 90 * (3 + 12 + 48 + 4 + 12)
    assert decoding_flops(4, 3, 5, [2, 3, 1]) == 90 * (1 + 4 + 16 + 4)


def test_exponent_of_a_power_law():
    assert scaling.exponent([1, 2, 4, 8], [3 * x**1.5 for x in (1, 2, 4, 8)]) == pytest.approx(1.5)


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="the peak memory is read from /proc")
@pytest.mark.parametrize("name", ["T", "T, recompute", "T, backprop_steps=1"])
def test_every_scaling_curve_is_a_decoder_that_trains(name):
    _, _, options = scaling.CURVES[name]
    seconds, size = scaling.point(N=4, T=3, B=2, D=2, **options)
    assert seconds > 0
    assert size >= 0


def test_tables_are_written_between_their_markers(tmp_path):
    target = tmp_path / "page.md"
    target.write_text("before\n<!-- speed: begin -->\nold\n<!-- speed: end -->\nafter\n")
    page.fill(target, "speed", "new")
    page.fill(target, "speed", "newer")
    assert target.read_text() == "before\n<!-- speed: begin -->\nnewer\n<!-- speed: end -->\nafter\n"
    with pytest.raises(ValueError, match="no markers"):
        page.fill(target, "other", "text")


def test_the_page_shows_the_results_files(tmp_path):
    text = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    copy = tmp_path / "performance.md"
    copy.write_text(text, encoding="utf-8")
    page.update(copy, ROOT / "benchmarks" / "results")
    assert copy.read_text(encoding="utf-8").splitlines() == text.splitlines()


def test_ratios_without_avx512_have_a_column_where_they_were_measured():
    found = {"chamfer": 2.0, "hungarian": 3.0, "details": {"chamfer": [0.2, 0.1], "hungarian": [0.3, 0.1]}}
    assert "AVX2" not in page.speed_table(found)
    lines = page.speed_table(found, {"chamfer": 2.5}).splitlines()
    assert lines[0].split(" | ")[5] == "ratio with AVX2"
    assert lines[-1] == "0 of 2 goals are met."
    assert [line.split(" | ")[4:6] for line in lines[2:4]] == [["**2.00 ×**", "2.50 ×"], ["**3.00 ×**", "–"]]


def test_shares_of_a_profile_are_those_of_the_workload():
    found = shares(cases.small_set(batch=2).workloads["small_set_full"], repeats=1)
    assert sum(found.values()) == pytest.approx(1)
    assert min(found["products"], found["pooling"]) > 0
    table = page.profile_table({"small_set_full": {"products": 0.5, "pooling": 0.25, "rest": 0.25}})
    assert table.splitlines()[-1] == "| `small_set_train_full` | 50% | 25% | 25% |"


@pytest.mark.slow
def test_waiting_for_data_is_a_part_of_a_step():
    wait, step = waiting(count=5 * 32, epochs=1)
    assert 0 <= wait < step
    results = {"loading_wait_share": wait / step, "details": {"loading_wait_share": [wait, step]}}
    assert f"waits {wait / step:.1%} of" in page.loading_line(results)
