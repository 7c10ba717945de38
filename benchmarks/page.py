"""The tables of docs/performance.md, written from the results files, so that page and files cannot differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

BARS: dict[str, tuple[str, float | None]] = {
    "mnist_train_full": ("MNIST training step, unrolled, Chamfer over all steps", 2.4),
    "mnist_train_k1": ("the same baseline against `LastSteps(1)` with the loss on YT", 5.0),
    "mnist_decode": ("MNIST: decode 32 sets, no gradients", 1.8),
    "mnist_evaluate": ("the same after 10 and after 20 steps: one after the other ÷ in one pass", 3.0),
    "clevr_decoder_train_full": ("relation decoder (N=10, D=18, 512/512), Hungarian over all steps", 1.8),
    "clevr_decoder_train_k1": ("the same baseline against `LastSteps(1)` with the loss on YT", 3.5),
    "clevr_decoder_decode": ("the same decoder: decode 32 sets, no gradients", None),
    "small_set_train_full": ("relation decoder (N=6, D=18, 128/128), Hungarian over all steps, one thread", 3.5),
    "small_set_train_k1": ("the same baseline against `LastSteps(1)` with the loss on YT", 8.0),
    "small_set_decode": ("the same decoder: decode 32 sets, no gradients", 4.0),
    "image_step_small": ("complete training step on 64-pixel scenes, DSPN, one thread", 2.0),
    "image_step_small_idspn": ("the same with iDSPN", 2.0),
    "image_encoder_step": ("small image encoder at 128×128, forward and backward: contiguous ÷ `channels_last`", None),
    "resnet34_step": ("a training step with ResNet34 at 128×128: contiguous ÷ `channels_last`", 1.4),
    "chamfer": ("Chamfer loss, 352 pairs of sets of 342, forward and backward", 15.0),
    "hungarian": ("Hungarian loss, 352 pairs of sets of 10, forward and backward", 4.0),
    "average_precision": ("15,000 images × 10 objects, six thresholds", 50.0),
    "mnist_train_full_memory": ("MNIST training step, peak memory above the idle process", 4.0),
    "mnist_train_k1_memory": ("the same with `LastSteps(1)`", 8.0),
    "image_step_small_memory": ("`image_step_small`, peak memory above the idle process", None),
    "image_step_small_idspn_memory": ("the same with iDSPN", None),
    "clevr_overhead": ("a training step with ResNet34 at 128×128: DSPN ÷ MLP decoder (the paper: 1.75)", None),
}
"""Keys of the results: the workload, and the ratio that was set as the goal before measuring (None: no goal)."""

RATES = {
    "mnist_full": "mnist_train_full",
    "mnist_decode": "mnist_decode",
    "clevr_full": "clevr_decoder_train_full",
    "small_set_full": "small_set_train_full",
    "small_set_decode": "small_set_decode",
    "image_dspn": "image_step_small",
    "image_idspn": "image_step_small_idspn",
    "resnet34_step": "resnet34_step",
}
"""Workloads whose FLOPs are counted, and the key of the ratio of which each is the faster side."""

LABELS = {"T, backprop_steps=1": "T, `LastSteps(1)`"}
"""Curves of the scaling results that are shown under another name than their key, which is as in older files."""


def speed_table(results: dict[str, Any], avx2: dict[str, Any] | None = None) -> str:
    """Times and ratios; with `avx2`, the results without AVX-512, their ratios too."""
    heads = ["key", "workload", "plain", "ours", "ratio", *(["ratio with AVX2"] if avx2 else []), "goal"]
    lines = [f"| {' | '.join(heads)} |", f"| {' | '.join(['---'] * len(heads))} |"]
    for key, (workload, bar) in BARS.items():
        if key not in results:
            continue
        slow, fast = results["details"][key]
        unit = _bytes if key.endswith("memory") else _seconds
        cells = [f"`{key}`", workload, unit(slow), unit(fast), f"**{results[key]:.2f} ×**"]
        if avx2:
            cells.append(f"{avx2[key]:.2f} ×" if key in avx2 else "–")
        cells.append("–" if bar is None else f"{bar:g} ×")
        lines.append(f"| {' | '.join(cells)} |")
    goals = {key: bar for key, (_, bar) in BARS.items() if bar is not None and key in results}
    met = sum(results[key] >= bar for key, bar in goals.items())
    return "\n".join([*lines, "", f"{met} of {len(goals)} goals are met."])


def machine_line(results: dict[str, Any]) -> str:
    m = results["machine"]
    return (
        f"Measured on {m['cpu']} ({m['threads']} threads, {m['capability']}, {m['clock']} time), torch {m['torch']}, "
        f"numba {m['numba']}, {m['time']}, load {m['load']}. Its matrix product reaches "
        f"{results['matmul_gflops']:.0f} GFLOP/s."
    )


def rates(results: dict[str, Any]) -> list[list[str]]:
    """Keys, what fraction of the rate of matrix products our side reaches, and the ratio if it reached all of it."""
    return [
        [key, f"{results[f'{name}_matmul_fraction']:.0%}", f"{results[key] / results[f'{name}_matmul_fraction']:.1f} ×"]
        for name, key in RATES.items()
        if f"{name}_matmul_fraction" in results
    ]


def rates_table(results: dict[str, Any]) -> str:
    lines = ["| key | of the rate of matrix products | ratio at 100% | goal |", "| --- | ---: | ---: | ---: |"]
    lines += [f"| `{key}` | {fraction} | {most} | {BARS[key][1]:g} × |" for key, fraction, most in rates(results)]
    return "\n".join(lines)


def profile_table(profile: dict[str, dict[str, float]]) -> str:
    lines = [
        "| key | matrix products, convolutions | sorting and pooling | the rest |",
        "| --- | ---: | ---: | ---: |",
    ]
    keys = RATES | {"clevr_k1": "clevr_decoder_train_k1", "small_set_k1": "small_set_train_k1"}
    for name, shares in sorted(profile.items()):
        cells = (f"{max(shares[part], 0):.0%}" for part in ("products", "pooling", "rest"))
        lines.append(f"| `{keys[name]}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def loading_line(results: dict[str, Any]) -> str:
    _, step = results["details"]["loading_wait_share"]
    return (
        f"A training step on photos with boxes waits {results['loading_wait_share']:.1%} of its {_seconds(step)} for "
        "data that one worker thread decodes and augments (goal: below 3%)."
    )


def scaling_table(scaling: dict[str, Any]) -> str:
    lines = ["| variable | from | to | time grows as | memory grows as |", "| --- | --- | --- | --- | --- |"]
    for name, curve in scaling["curves"].items():
        cells = [LABELS.get(name, name), curve["values"][0], curve["values"][-1]]
        cells += [f"x^{curve[exponent]:.2f}" for exponent in ("time_exponent", "memory_exponent")]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def fill(page: Path, name: str, text: str) -> None:
    """Replace the text between the page's markers of that name."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    old = page.read_text(encoding="utf-8")
    if begin not in old or end not in old:
        raise ValueError(f"{page} has no markers {begin} and {end}")
    head, tail = old.split(begin)[0], old.split(end)[1]
    page.write_text(f"{head}{begin}\n{text}\n{end}{tail}", encoding="utf-8")


def update(page: Path, results: Path) -> None:
    """Write every table of the page from the files in the folder `results`."""
    speed, avx2, scaling = (results / f"{name}.json" for name in ("speed", "speed-avx2", "scaling"))
    if speed.is_file():
        found = json.loads(speed.read_text())
        without = json.loads(avx2.read_text()) if avx2.is_file() else None
        lines = [speed_table(found, without), machine_line(found)]
        if without is not None:
            lines.append(f"With AVX2 only: {machine_line(without)}")
        fill(page, "speed", "\n\n".join(lines))
        fill(page, "rates", rates_table(found))
        if "profile" in found:
            fill(page, "profile", profile_table(found["profile"]))
        if "loading_wait_share" in found:
            fill(page, "loading", loading_line(found))
    if scaling.is_file():
        fill(page, "scaling", scaling_table(json.loads(scaling.read_text())))


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{1000 * value:.3g} ms"


def _bytes(value: float) -> str:
    return f"{value / 2**20:.0f} MB"
