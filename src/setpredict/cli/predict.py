"""`setpredict predict`: sets for files, folders and numbers, as text or in files for other programs."""

from __future__ import annotations

import sys
from pathlib import Path

from tyro.conf import Positional

from setpredict.config.inner import check_has_steps, check_steps
from setpredict.core.errors import UserError


def predict(
    run: Positional[Path],
    inputs: Positional[tuple[str, ...]],
    steps: int | None = None,
    threshold: float | None = None,
    json: bool = False,
    coco: Path | None = None,
    annotations: Path | None = None,
    csv: Path | None = None,
    draw: Path | None = None,
    allow_own_code: bool = False,
) -> None:
    """Predict sets with a trained model.

    Args:
        run: The run's folder, or the name of a shipped model such as points-idspn.
        inputs: Image files, folders or patterns such as 'photos/*.jpg'; or numbers as .npy files, .json files, or JSON
            on the command line.
        steps: Inner steps (None: as trained).
        threshold: Elements whose mask is above this are shown (None: 0.5; for --coco 0, since AP needs them all).
        json: One JSON object per line instead of text, with every feature and category by its name.
        coco: Write boxes to this file in COCO's results format.
        annotations: The COCO annotation file whose image and category ids --coco uses (None: those of the run's own
            data, if they are still there; otherwise numbers from 1).
        csv: Write one line per element to this file.
        draw: Draw boxes or points on the original images, into this folder.
        allow_own_code: Import the run's own classes (module:Class). Runs that you trained here need no permission.
    """
    from json import dumps

    from setpredict.core.progress import progress
    from setpredict.runs.inputs import find_inputs
    from setpredict.runs.loaded import load
    from setpredict.runs.predict import accepts, predict_files

    if not inputs:
        raise UserError("predict needs at least one input")
    if threshold is not None and not threshold < 1:
        raise UserError(f"--threshold must be below 1, the largest mask, got {threshold:g}")
    check_steps([steps])
    loaded = load(run, allow_own_code=allow_own_code)
    task, shown = loaded.task, 0.5 if threshold is None else threshold
    kept = 0.0 if coco and threshold is None else shown
    check_has_steps(loaded.steps, [steps], run)
    if annotations and not coco:
        raise UserError("--annotations is for --coco FILE: add it")
    ids = None
    if coco:
        from setpredict.report.result_files import check_boxes, find_ids

        check_boxes(task, "--coco")
        ids = find_ids(loaded, annotations)
    if draw:
        from setpredict.report.figures.overlay import check_drawable, draw_answer

        check_drawable(task)
    names = find_inputs(inputs, task, without=draw)
    print(f"{loaded.name} {accepts(task)}.", file=sys.stderr)
    quiet = bool(coco or csv or draw) and not json
    wrong: list[UserError] = []
    answers, taken = [], set()
    with progress("Predicting", len(names)) as advance:
        for answer in predict_files(loaded, names, steps, min(kept, shown), on_error=wrong.append):
            advance(1)
            above = answer.above(shown)
            if coco or csv:
                answers.append(answer)
            if draw:
                draw_answer(above, task, draw, taken)  # pyright: ignore[reportPossiblyUnboundVariable]
            if json:
                print(dumps(above.to_dict()), flush=True)
            elif not quiet:
                print(f"{above.input}: {len(above.text)} elements")
                for line, score in zip(above.text, above.scores):
                    print(f"  {score:5.2f}  {line}")
    written = [str(draw)] if draw and len(names) > len(wrong) else []
    if coco and ids:
        from setpredict.report.result_files import write_coco

        write_coco(coco, [answer.above(kept) for answer in answers], task, ids)
        written.append(f"{coco} (ids of {ids.source})" if ids.source else f"{coco} (images and categories from 1)")
    if csv:
        from setpredict.report.result_files import write_csv

        write_csv(csv, [answer.above(shown) for answer in answers], task)
        written.append(str(csv))
    for place in written:
        print(f"Written: {place}", file=sys.stderr)
    if len(wrong) == 1:
        raise wrong[0]
    if wrong:
        for error in wrong[:20]:
            print(f"setpredict: {error}", file=sys.stderr)
        raise UserError(f"{len(wrong)} of {len(names)} inputs could not be read; the others are complete")
