"""The API: right answers to valid requests."""

import base64
import io
import json

import httpx
import numpy as np
import pytest
import torch
from PIL import Image

from setpredict.data.sources.memory import memory
from setpredict.data.sources.scenes import scenes
from setpredict.sets import Sets
from setpredict.web.batching import DecodeQueue
from setpredict.web.catalog import Served
from setpredict.web.limits import BadInput, Limits
from setpredict.web.schema import DecodeRequest
from tests.web.served import Running, tiny


def decode(client: httpx.Client, model: str, **body):
    answer = client.post(f"/api/{model}/decode", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_health_and_models(client: httpx.Client, models: dict[str, Served]):
    assert client.get("/healthz").json()["status"] == "ok"
    listed = client.get("/api/models").json()
    assert [m["name"] for m in listed] == list(models)
    assert listed[0]["trained_steps"] == 3
    assert listed[1]["trained_steps"] == 0


@pytest.mark.parametrize("points", [[], [[0.1, 0.2]], [[0.1, 0.2]] * 5])
def test_points_give_what_the_model_gives(client: httpx.Client, models: dict[str, Served], points):
    seen = decode(client, "points-dspn", points=points)
    model = models["points-dspn"].model
    with torch.no_grad():
        prediction = model(Sets.from_list([points], max_size=5, features=2))
    np.testing.assert_allclose(seen["elements"], prediction.elements[:, 0], atol=6e-5)
    np.testing.assert_allclose(seen["mask"], prediction.mask[:, 0].clamp(0, 1), atol=6e-5)
    np.testing.assert_allclose(seen["repr_loss"], prediction.repr_loss[:, 0], rtol=1e-3)
    assert seen["target"] is None
    assert seen["steps"] == 3


def test_steps_beyond_the_trained_ones_and_none_at_all(client: httpx.Client):
    assert len(decode(client, "points-dspn", points=[[0.5, 0.5]], steps=200)["elements"]) == 201
    assert len(decode(client, "points-dspn", points=[[0.5, 0.5]], steps=0)["mask"]) == 1
    assert decode(client, "points-mlp", points=[[0.5, 0.5]], steps=50)["steps"] == 0  # one-shot decoders have no steps


def test_latent_is_decoded_as_it_is(client: httpx.Client, models: dict[str, Served]):
    seen = decode(client, "points-dspn", points=[[0.3, 0.4]])
    with torch.no_grad():
        code = models["points-dspn"].model.encode(Sets.from_list([[[0.3, 0.4]]], max_size=5))
    again = decode(client, "points-dspn", latent=code.vector[0].tolist())
    np.testing.assert_allclose(again["elements"], seen["elements"], atol=2e-4)


def test_vector(client: httpx.Client):
    assert len(decode(client, "polygons-dspn", vector=[1, 0, 0, 1, 0, 0, 0, 0])["elements"][0]) == 8


def test_a_sample_has_its_target_and_what_is_right(client: httpx.Client, models: dict[str, Served]):
    seen = decode(client, "scenes-state", sample=1)
    target = models["scenes-state"].task.test.batch(np.array([1]), 0).target.to_list()[0]
    np.testing.assert_allclose(seen["target"]["elements"], target, atol=6e-5)
    assert seen["input"].startswith("data:image/png;base64,")
    assert len(seen["matches"]) == 4
    rows = seen["matches"][-1]
    assert [r["target"] for r in rows if r["target"] is not None] == list(range(len(target)))
    assert seen["columns"] == ["x, y, z", "size", "color", "material", "shape"]
    assert len(seen["positions"][0]) == 4
    boxes = decode(client, "scenes-box", sample=1)
    assert [r["right"] for r in boxes["matches"][0]] == [False] * 4
    points = decode(client, "points-mlp", sample=6)
    assert points["target"]["elements"] == points["input"]


def test_models_say_how_to_show_them(client: httpx.Client):
    listed = {m["name"]: m for m in client.get("/api/models").json()}
    assert {name: m["aspect"] for name, m in listed.items()} == {
        "points-dspn": 1, "points-mlp": 1, "polygons-dspn": 1, "scenes-state": 1.5, "scenes-box": 1.5,
    }  # fmt: skip
    assert {m["max_steps"] for m in listed.values()} == {None}
    assert listed["scenes-box"]["first_sample"] == listed["scenes-state"]["first_sample"] in range(3)


def test_a_scene_has_a_larger_picture_in_the_aspect_ratio_of_the_camera(client: httpx.Client):
    seen = decode(client, "scenes-box", sample=1)
    head, _, content = seen["picture"].partition(",")
    assert head == "data:image/jpeg;base64"
    with Image.open(io.BytesIO(base64.b64decode(content))) as picture, io.BytesIO() as buffer:
        assert picture.size == (360, 240)
        small = np.asarray(picture.resize((64, 64), Image.Resampling.BOX), float)
        buffer.write(base64.b64decode(seen["input"].partition(",")[2]))
        with Image.open(buffer) as image:
            assert np.abs(np.asarray(image, float) - small).mean() < 8, "the same scene as the model's input"
    assert decode(client, "points-dspn", sample=1)["picture"] is None
    assert decode(client, "scenes-box", image=content)["picture"] is None


def test_objects_of_a_scene_are_where_the_camera_sees_them(client: httpx.Client, models: dict[str, Served]):
    from setpredict.data.render.sampler import sample_scene

    seen = decode(client, "scenes-state", sample=2)
    scene = sample_scene(0, "test", 2, 0, 3, 4)
    np.testing.assert_allclose(np.array(seen["target"]["positions"]) * (480, 320), scene.pixels[:, :2], atol=0.6)


@pytest.mark.parametrize("size", [(32, 32), (48, 20), (1, 1)])
@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP"])
def test_image(client: httpx.Client, size, form):
    buffer = io.BytesIO()
    Image.new("RGB", size, "teal").save(buffer, form)
    text = base64.b64encode(buffer.getvalue()).decode()
    seen = decode(client, "scenes-box", image=text)
    assert np.isfinite(seen["elements"]).all()
    assert decode(client, "scenes-box", image=f"data:image/png;base64,{text}")["elements"] == seen["elements"]


def test_a_decoder_that_needs_more_than_a_vector():
    """The dense head's proposals are decoded in one batch as they are alone; z alone is not enough for them."""
    served = tiny("scenes-dense", scenes("box", size=64, max_objects=4, test=3), "dense")
    queue = DecodeQueue(Limits())
    try:
        requests = [DecodeRequest.model_validate({"sample": i}) for i in range(3)]
        with queue.change:  # the worker waits for this lock, so that all requests are in the queue when it looks
            futures = [queue.submit(request, served) for request in requests]
        together = [json.loads(future.result(30)) for future in futures]
        alone = [json.loads(queue.submit(request, served).result(30)) for request in requests]
        assert ([a["batch_size"] for a in together], [a["batch_size"] for a in alone]) == ([3, 3, 3], [1, 1, 1])
        for one, other in zip(together, alone):
            np.testing.assert_allclose(one["elements"], other["elements"], atol=2e-4)
        with pytest.raises(BadInput, match="scenes-dense decodes more than the vector z: it takes image or sample"):
            queue.submit(DecodeRequest.model_validate({"latent": [0.0] * 8}), served).result(30)
    finally:
        queue.close()


def test_the_page_and_its_own_files_only(client: httpx.Client):
    page = client.get("/")
    assert "A set takes shape" in page.text
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert client.get("/docs").status_code == 200
    for path in ("/static/app.js", "/static/tabs/points.js"):
        assert client.get(path).headers["content-type"].startswith("text/javascript")
    for path in ("/static/../server.py", "/static/%2e%2e/server.py", "/static/", "/static/tabs", "/static/app.js/x",
                 "/server.py", "/static/..%2fserver.py", "//etc/passwd", "/static/%00"):  # fmt: skip
        assert client.get(path).status_code == 404, path


def test_the_page_loads_nothing_from_other_hosts(client: httpx.Client):
    import re

    from setpredict.web.server import static_files

    for name, file in static_files().items():
        links = re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s\"']*", file.read_text(encoding="utf-8"))
        assert [link for link in links if "www.w3.org" not in link] == [], name


def test_only_one_module_of_the_page_calls_the_server():
    from setpredict.web.server import static_files

    callers = {name for name, file in static_files().items() if "fetch(" in file.read_text(encoding="utf-8")}
    assert callers == {"api.js", "docs.js"}  # docs.js belongs to the page about the API


def test_inputs_are_in_the_units_of_the_data():
    """The answer has them as the model sees them, which must not be far outside of its training data."""
    rng = np.random.default_rng(0)
    given = rng.uniform([1990, 0, -5], [2030, 4000, 5], size=(30, 3))
    task = memory((given, [rng.uniform(size=(2, 2)) for _ in given]), kind="points")
    with Running({"run-own": tiny("run-own", task)}) as address, httpx.Client(base_url=address, timeout=60) as client:
        answer = client.post("/api/run-own/decode", json={"vector": [2010.0, 3000.0, 1.0]})
        seen = task.normalize_input(torch.tensor([[2010.0, 3000.0, 1.0]]))
        assert isinstance(seen, torch.Tensor)
        assert answer.json()["input"] == pytest.approx(seen[0].tolist(), abs=1e-4)
        assert seen.abs().max() < 2
        sample = client.post("/api/run-own/decode", json={"sample": 0}).json()
        own = task.test.batch(np.array([0]), 0).input
        assert isinstance(own, torch.Tensor)
        assert sample["input"] == pytest.approx(own[0].tolist(), abs=1e-4)
        far = client.post("/api/run-own/decode", json={"vector": [1e8, 0.0, 0.0]})
        assert far.status_code == 422
        assert "the input is far outside of the training data of run-own" in far.json()["detail"]
