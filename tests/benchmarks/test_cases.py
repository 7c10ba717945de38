"""The comparisons of `python -m benchmarks`: both sides agree, every figure has its place. No times are asserted."""

import json
import re
from pathlib import Path

import pytest
import torch

from benchmarks import cases, page
from benchmarks.baseline import PlainFSPool
from benchmarks.machine import decoding_flops, training_flops
from benchmarks.scaling import exponent
from setpredict.encoders import FSPool

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["chamfer", "hungarian", "mnist", "clevr_decoder"])
def test_both_sides_agree(name):
    case = getattr(cases, name)(batch=2)
    assert case.check() <= case.tolerance
    for slow, quick in case.ratios.values():
        assert {slow, quick} <= set(case.works)


def test_average_precision_agrees():
    assert cases.average_precision(images=40).check() < 1e-9


def test_the_check_sees_a_difference():
    a, b = torch.ones(3), torch.tensor([1.0, 1.0, 1.1])
    assert cases.difference([a, a], [a, b]) == pytest.approx(0.1 / b.norm().item(), rel=1e-4)


def test_plain_fspool_is_fspool():
    torch.manual_seed(0)
    ours, plain = FSPool(4), PlainFSPool(4)
    plain.weight = ours.weight
    for n in (1, 2, 17):
        x = torch.randn(3, n, 4)
        torch.testing.assert_close(plain(x.transpose(1, 2)), ours(x))


def test_flops_of_a_small_network_by_hand():
    # 5 rows of 2 → 3 → 1: one pass is 2·5·(2·3 + 3·1) = 90; B = 1, T = 1
    assert training_flops(1, 1, 5, [2, 3, 1], encode=False) == 90 * (3 + 3 + 1)
    assert training_flops(4, 3, 5, [2, 3, 1], encode=True) == 90 * (3 + 12 + 48 + 4 + 12)
    assert decoding_flops(4, 3, 5, [2, 3, 1]) == 90 * (1 + 4 + 16 + 4)


def test_exponent_of_a_power_law():
    assert exponent([1, 2, 4, 8], [3 * x**1.5 for x in (1, 2, 4, 8)]) == pytest.approx(1.5)


def test_tables_are_filled_between_their_markers(tmp_path):
    target = tmp_path / "page.md"
    target.write_text("before\n<!-- speed: begin -->\nold\n<!-- speed: end -->\nafter\n")
    page.fill(target, "speed", "new")
    page.fill(target, "speed", "newer")
    assert target.read_text() == "before\n<!-- speed: begin -->\nnewer\n<!-- speed: end -->\nafter\n"
    with pytest.raises(ValueError, match="no markers"):
        page.fill(target, "other", "text")


@pytest.mark.parametrize(("marker", "file"), [("speed", "speed.json"), ("scaling", "scaling.json")])
def test_the_page_shows_the_results_file(marker, file):
    results = ROOT / "benchmarks" / "results" / file
    if not results.is_file():
        pytest.skip(f"{file} has not been written yet")
    found = json.loads(results.read_text())
    text = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    shown = re.search(rf"<!-- {marker}: begin -->\n(.*)\n<!-- {marker}: end -->", text, re.DOTALL)
    assert shown is not None
    speed = marker == "speed"
    expected = f"{page.speed_table(found)}\n\n{page.machine_line(found)}" if speed else page.scaling_table(found)
    assert shown[1] == expected
