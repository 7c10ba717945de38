"""Options that are left to the data: what they become, and that explicit ones stay."""

from dataclasses import replace

import pytest

from setpredict.build import make_task
from setpredict.config import DataConfig, DecoderConfig, Experiment, GradientDescent, from_json, to_json
from setpredict.core.errors import UserError
from setpredict.presets import METHODS, preset, scales_of
from setpredict.resolve import FROM_DENSE, IMAGE_RATE, NUMBER_SCALE, RATE, WARMUP, feature_scale, model_config, resolved
from setpredict.studies import changed


@pytest.fixture(scope="module")
def boxes():
    return make_task(DataConfig("scenes", target="box", size=32, train=8, val=4, test=4))


@pytest.fixture(scope="module")
def points():
    return make_task(DataConfig("multisets", train=8, val=4, test=4))


def test_images_with_places_start_from_the_dense_head(boxes):
    found = resolved(preset("folder"), boxes)
    assert (found.input.warmup, found.loss.dense, found.loss.masks) == (WARMUP, 1.0, "filter")
    assert (found.decoder.initial, found.decoder.solver, found.decoder.step_scale) == ("dense", FROM_DENSE, "learned")
    assert resolved(found, boxes) == found


def test_other_data_get_the_papers_settings(points):
    found = resolved(preset("folder", "dspn"), points)
    assert (found.input.warmup, found.loss.dense, found.loss.masks) == (0, 0.0, "feature")
    assert (found.decoder.initial, found.decoder.solver) == ("learned", GradientDescent())
    assert (found.latent, found.train.lr) == (128, RATE)
    assert feature_scale(found, points) == (NUMBER_SCALE,) * points.features


def test_the_method_fits_the_data(points, boxes):
    auto = preset("folder")
    assert resolved(auto, boxes) == resolved(preset("folder", "dspn"), boxes)
    assert resolved(auto, points) == resolved(preset("folder", "idspn"), points)
    assert resolved(auto, points).decoder.method == "iDSPN"
    auto.decoder = replace(auto.decoder, solver=GradientDescent(steps=7))
    assert resolved(auto, points).decoder == DecoderConfig(solver=GradientDescent(steps=7))
    assert preset("multisets") == preset("multisets", "dspn")


def test_codes_have_room_for_large_sets(points, boxes):
    for size, latent in ((8, 128), (33, 256), (64, 256), (65, 512), (1000, 512)):
        assert resolved(preset("folder"), replace(points, max_size=size)).latent == latent, size
    found = resolved(preset("folder"), boxes)
    assert (found.latent, found.train.lr) == (128, IMAGE_RATE)


def test_explicit_options_stay(boxes):
    chosen = preset("folder", "dspn")
    chosen.input = replace(chosen.input, warmup=0)
    chosen.loss = replace(chosen.loss, dense=0.25, masks="feature")
    chosen.decoder = replace(chosen.decoder, solver=GradientDescent(steps=3))
    found = resolved(chosen, boxes)
    assert (found.input, found.loss) == (chosen.input, chosen.loss)
    assert found.decoder == replace(chosen.decoder, initial="dense")


def test_explicit_options_stay_where_the_data_choose_the_method(points):
    options = {"encoder.kind": "relation", "train.lr": 0.01, "loss.repr_weight": 0.5, "train.few_steps_until": 0.25}
    for scale in scales_of("folder"):
        auto, idspn = (resolved(changed(preset("folder", m, scale), options), points) for m in ("auto", "idspn"))
        assert (auto.encoder.kind, auto.train.lr, auto.loss.repr_weight) == ("relation", 0.01, 0.5)
        assert auto.train.few_steps_until == 0.25
        assert auto.decoder.method == "iDSPN"
        if scale == "small":
            assert auto == idspn
        else:
            assert auto.latent == 512


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_decided_for_every_data(method, boxes, points):
    for task in (boxes, points):
        if method == "dense" and not task.has_centers:
            with pytest.raises(UserError, match="needs a dense head"):
                model_config(preset("folder", method), task)
            continue
        found = resolved(preset("folder", method), task)
        assert None not in (found.input.warmup, found.loss.dense, found.loss.masks)
        assert found.decoder.initial != "auto"
        assert (found.decoder.initial == "dense") == (method in ("dspn", "auto") and task is boxes)
        assert from_json(Experiment, to_json(found)) == found


def test_coordinates_of_boxes_count_five_times(boxes, points):
    assert feature_scale(Experiment(), boxes) == (5.0,) * 4
    assert feature_scale(Experiment(), points) == ()
    assert feature_scale(Experiment(coordinates=2.0), points) == (2.0, 2.0)
    assert model_config(Experiment(coordinates=1.0), boxes).feature_scale == ()
    for wrong in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(UserError, match="--coordinates must be above 0"):
            feature_scale(Experiment(coordinates=wrong), boxes)


def test_experiments_of_version_1_have_no_scaled_coordinates():
    old = {"data": {"name": "scenes", "target": "box"}, "train": {}, "decoder": {"kind": "dspn", "steps": 4}}
    found = from_json(Experiment, old)
    assert (found.coordinates, found.decoder) == (1.0, DecoderConfig(solver=GradientDescent(steps=4)))
