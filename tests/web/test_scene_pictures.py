"""Scenes are rendered once for all models of a tab, while requests are decoded; what the page shows is the same."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

from setpredict.data.task import Subset
from setpredict.report.tables.judged import true_objects
from setpredict.sets import Sets
from setpredict.web import scene_pictures
from setpredict.web.answers import answer
from setpredict.web.batching import DecodeQueue, decode
from setpredict.web.catalog import Served
from setpredict.web.inputs import encode_request
from setpredict.web.limits import Limits
from setpredict.web.schema import DecodeRequest


@pytest.mark.parametrize("name", ["scenes-state", "scenes-box", "points-dspn"])
def test_a_sample_is_that_of_the_split(models: dict[str, Served], name: str):
    source = models[name].source
    assert source is not None
    for index in (2, 0):
        ours, true = scene_pictures.sample_of(source, index), source.batch(np.array([index]), 0)
        for a, b in ((ours.input, true.input), (ours.target, true.target)):
            if isinstance(a, Sets):
                assert isinstance(b, Sets)
                assert torch.equal(a.mask, b.mask)
                a, b = a.elements, b.elements
            assert isinstance(b, torch.Tensor)
            assert torch.equal(a, b)


def test_a_scene_is_rendered_once_for_models_that_see_it_in_the_same_size(
    models: dict[str, Served], monkeypatch: pytest.MonkeyPatch
):
    sizes = []
    original = scene_pictures.render

    def counted(view, width, height=None):
        sizes.append((width, height))
        return original(view, width, height)

    monkeypatch.setattr(scene_pictures, "render", counted)
    scene_pictures._picture.cache_clear()
    scene_pictures._pixels.cache_clear()
    for name in ("scenes-state", "scenes-box"):
        source = models[name].source
        assert source is not None
        scene_pictures.sample_of(Subset(source, 2), 1)
        assert scene_pictures.picture(source, 1)
    assert sorted(sizes, key=str) == [(360, 240), (64, None)]


def test_the_picture_is_rendered_while_the_request_is_decoded(
    models: dict[str, Served], monkeypatch: pytest.MonkeyPatch
):
    """Rendering has begun before the worker has taken up the request, and the answer waits for its end."""
    served, begun, may_end = models["scenes-state"], threading.Event(), threading.Event()
    original = scene_pictures._render

    def slow(scene: scene_pictures.SceneKey) -> str:
        begun.set()
        assert may_end.wait(30)
        return original(scene)

    monkeypatch.setattr(scene_pictures, "_render", slow)
    scene_pictures._picture.cache_clear()
    queue = DecodeQueue(Limits())
    try:
        future = queue.submit(DecodeRequest.model_validate({"sample": 1}), served)
        assert begun.wait(30)
        assert not future.done()
        may_end.set()
        assert json.loads(future.result(30))["picture"].startswith("data:image/jpeg;base64,")
    finally:
        may_end.set()
        queue.close()


def test_samples_that_do_not_exist_are_not_rendered(models: dict[str, Served]):
    scene_pictures._picture.cache_clear()
    scene_pictures.start_picture(models["scenes-state"].source, 10**6)
    scene_pictures.start_picture(models["points-dspn"].source, 0)
    scene_pictures.start_picture(None, 0)
    assert scene_pictures._picture.cache_info().currsize == 0


def test_the_text_of_elements_is_that_of_the_tables(models: dict[str, Served]):
    served = models["scenes-state"]
    question = encode_request(DecodeRequest.model_validate({"sample": 2}), served)
    prediction = decode([question])
    found = json.loads(answer(question, prediction, 0.0, 1))
    for t in range(prediction.steps + 1):
        sets = replace(prediction.step(t), mask=torch.ones_like(prediction.mask[t]))
        rows = true_objects(served.task, sets, 0)
        assert found["text"][t] == [[cell.text for cell in row.cells] for row in rows]
    assert question.batch is not None
    true = true_objects(served.task, question.batch.target, 0)
    assert found["target"]["text"] == [[cell.text for cell in row.cells] for row in true]
