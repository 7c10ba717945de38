"""`fit`: data in memory of every kind, resumed to the bit, and errors that name the sample."""

import numpy as np
import pytest
import torch
from rich.console import Console

import setpredict
from setpredict import Sets
from setpredict.core.errors import UserError
from setpredict.data.sources.memory import memory
from setpredict.runs.fit import fit

QUIET = Console(quiet=True)
SHORT = {
    "train.max_steps": 6,
    "train.schedule": "constant",
    "train.batch_size": 8,
    "decoder.solver.steps": 3,
    "encoder.hidden": [16],
}


def vectors(count: int = 40, seed: int = 0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, 5)), [rng.normal(10, 3, size=(1 + n % 4, 2)) for n in range(count)]


class Pairs(torch.utils.data.Dataset):
    """A user's own Dataset, of tensors."""

    def __init__(self, inputs, sets):
        self.inputs, self.sets = inputs, sets

    def __len__(self):
        return len(self.sets)

    def __getitem__(self, i):
        return torch.as_tensor(self.inputs[i]), torch.as_tensor(self.sets[i])


def test_arrays_and_a_dataset_train_the_same_model(tmp_path):
    inputs, sets = vectors()
    runs = [
        fit(data, folder=tmp_path / name, options=SHORT, console=QUIET)
        for name, data in (("arrays", (inputs, sets)), ("dataset", Pairs(inputs, sets)))
    ]
    weights = [run.model.state_dict() for run in runs]
    assert all(torch.equal(w, weights[1][name]) for name, w in weights[0].items())
    assert runs[0].task.max_size == 4
    assert (len(runs[0].data.train), len(runs[0].data.val)) == (36, 4)
    predicted = setpredict.load(tmp_path / "arrays").model.predict(inputs[:3].astype(np.float32))
    assert predicted.elements.shape == (3, 4, 2)
    seen = runs[0].task.denormalize(runs[0].data.val.batch(np.array([0]), 0).target.elements)
    assert any(np.allclose(seen[0][: len(s)], s, atol=1e-4) for s in sets)  # in the user's units


def test_an_interrupted_fit_resumes_to_the_bit(tmp_path):
    data = vectors()
    whole = fit(data, folder=tmp_path / "whole", options=SHORT, console=QUIET)
    fit(data, folder=tmp_path / "parts", options={**SHORT, "train.max_steps": 3}, console=QUIET)
    parts = fit(data, folder=tmp_path / "parts", options={"train.max_steps": 6}, resume=True, console=QUIET)
    theirs = parts.model.state_dict()
    assert all(torch.equal(w, theirs[name]) for name, w in whole.model.state_dict().items())


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("trian.lr", "there is no option trian.lr: trian is not a group"),
        ("train.lr.value", "there is no option train.lr.value: lr is not a group"),
        ("train.rl", "rl"),
        ("decoder.solver.momentun", "did you mean .*momentum"),
    ],
)
def test_unknown_options_are_named(tmp_path, option, named):
    with pytest.raises(UserError, match=named):
        fit(vectors(), folder=tmp_path / "run", options={option: 1e-3}, console=QUIET)
    assert not (tmp_path / "run").exists()


def test_no_validation_samples_can_be_asked_for():
    assert len(memory(vectors(), val=0, test=vectors(4)).val) == 0


def test_images_with_boxes_warm_up_and_are_augmented(tmp_path):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, size=(20, 32, 32, 3), dtype=np.uint8)
    boxes = [np.array([[4.0, 4, 16, 20]] * (1 + n % 2)) for n in range(20)]
    options = {"train.max_steps": 4, "train.batch_size": 4, "input.widths": [8, 8, 8], "encoder.hidden": [16]}
    run = fit((images, boxes), folder=tmp_path / "run", options=options, console=QUIET)
    assert (run.task.kind, run.task.input_size, run.experiment.decoder.initial) == ("boxes", 32, "dense")
    assert run.experiment.input.warmup == pytest.approx(0.3)
    found = run.data.val.batch(np.array([0]), 0).target.elements[0, 0]
    torch.testing.assert_close(found, torch.tensor([4.0, 4, 16, 20]) / 32)
    assert run.model.predict(images[:2].transpose(0, 3, 1, 2) / 255).elements.shape == (2, 2, 4)


def test_sets_as_inputs_and_categories():
    sets = [[[float(n), "cat"], [2.0, "dog"]] for n in range(12)]
    task = memory(([np.ones((n % 3, 2)) * n for n in range(12)], sets))
    assert (task.input_kind, task.max_input_size, task.features) == ("set", 2, 3)
    assert task.categories == {"x1": ("cat", "dog")}


def test_errors_name_the_split_and_the_sample():
    inputs, sets = vectors(6)
    bad = {
        "train has 6 inputs and 5 sets": (inputs, sets[:5]),
        r"train, sample 2: the input is a vector of 4 numbers, not a vector of 5": (
            [*inputs[:2], inputs[2][:4]],
            sets[:3],
        ),
        r"train, sample 1: a set must be finite numbers of shape": (inputs[:2], [sets[0], np.full((1, 2), np.nan)]),
        r"train, sample 1: elements must all have the same 2 features": (inputs[:2], [sets[0], np.zeros((1, 3))]),
        r"train, sample 0: an image must be \(3, S, S\) or \(S, S, 3\), got \(4, 5, 5\)": (
            np.zeros((1, 4, 5, 5)),
            sets[:1],
        ),
        r"train, sample 0: an image must be uint8, or floats from 0 to 1": (np.full((1, 3, 5, 5), 3.0), sets[:1]),
        "train, sample 0: a set must be a list of elements with the same features": (inputs[:1], [[0.1, 0.2]]),
        "train, sample 1: a set must be a list of elements": (inputs[:2], [sets[0].tolist(), [[0.1, 0.2], [0.3]]]),
        "train, sample 1: a feature must be text or one of the finite numbers up to 1e37, got nan": (
            inputs[:2],
            [[[0.5, "dog"]], [[float("nan"), "cat"]]],
        ),
        "a feature must be text or one of the finite numbers up to 1e37, got None": (inputs[:1], [[[None, "cat"]]]),
        "a feature must be text or one of the finite numbers up to 1e37, got True": (inputs[:1], [[[True, "cat"]]]),
        "a feature must be text or one of the finite numbers up to 1e37, got 1000": (inputs[:1], [[[10**400, "c"]]]),
        "train has no samples": ([], []),
        r"train, sample 0: expected \(input, set\), got int": [1, 2, 3],
    }
    for reason, data in bad.items():
        with pytest.raises(UserError, match=reason):
            memory(data)
    with pytest.raises(UserError, match="val, sample 0: the input is a vector of 3 numbers"):
        memory((inputs, sets), val=(inputs[:2, :3], sets[:2]))


def test_the_first_inputs_may_be_empty_sets():
    inputs, sets = [[], [], [[1.0, 2.0]], []], [[[1.0]]] * 4
    task = memory((inputs, sets), val=(inputs, sets))
    assert (task.input_kind, task.input_size, task.max_input_size) == ("set", 2, 1)
    with pytest.raises(UserError, match=r"sample 1: the input is a vector of 1 numbers, not a vector of 0 numbers"):
        memory(([[], [1.0]], sets[:2]))


def test_options_of_the_data_count(tmp_path):
    rng = np.random.default_rng(0)
    sets = [rng.random((3, 2)) for _ in range(40)]
    given = {"data.train": 16, "data.val": 2, "data.augment.rotate": ["x", "y"]}
    run = fit((sets, sets), folder=tmp_path / "run", options={**SHORT, **given}, console=QUIET)
    assert (len(run.data.train), len(run.data.val)) == (16, 2)
    with pytest.raises(UserError, match="rotate needs two or three different numbers of x, y, got x0 x1"):
        fit((sets, sets), folder=tmp_path / "x", options={**SHORT, "data.augment.rotate": ["x0", "x1"]}, console=QUIET)
    with pytest.raises(UserError, match="augmentation is for images"):
        fit((sets, sets), folder=tmp_path / "x", options={**SHORT, "data.augmented": True}, console=QUIET)


def test_the_seed_of_the_data_decides_about_the_validation_samples(tmp_path):
    inputs, sets = vectors(20)
    held_out = []
    for seed in (0, 1, 0):
        run = fit(
            (inputs, sets), folder=tmp_path / f"{len(held_out)}", options={**SHORT, "data.seed": seed}, console=QUIET
        )
        given = run.task.denormalize_input(run.data.val.batch(np.arange(2), 0).input)
        assert isinstance(given, torch.Tensor)
        held_out.append(given.numpy())
    assert not np.allclose(held_out[0], held_out[1])
    assert np.allclose(held_out[0], held_out[2])


def test_an_empty_input_set_may_be_an_empty_list():
    inputs = [[[0.1, 0.2], [0.3, 0.4]], [], [[0.5, 0.6]], np.zeros((0, 2))]
    task = memory((inputs, inputs), val=0.0)
    sizes = task.train.batch(np.arange(4), 0).input.sizes  # pyright: ignore[reportAttributeAccessIssue]
    assert sizes.tolist() == [2, 0, 1, 0]


def test_a_run_that_is_loaded_again_is_measured_on_arrays(tmp_path):
    data = vectors()
    run = fit(data, folder=tmp_path / "run", options=SHORT, console=QUIET)
    again = setpredict.load(tmp_path / "run")
    inputs, sets = data
    seen = setpredict.evaluate(again, data, loss="hungarian")
    predicted = run.model.predict(run.task.normalize_input(inputs))
    target = Sets.from_list([torch.as_tensor(s) for s in sets], max_size=4).to(torch.float32)
    zero, one = (run.task.denormalize(torch.full((2,), value)) for value in (0.0, 1.0))
    units = Sets((target.elements - zero) / (one - zero) * target.mask[..., None], target.mask)
    assert seen.samples == 40
    expected = float(setpredict.hungarian_loss(predicted, units).mean())
    assert seen.metrics["hungarian"] == pytest.approx(expected, rel=1e-4)
    with pytest.raises(UserError, match=r"is a run of DSPN: resume it without method='mlp'"):
        fit(data, folder=tmp_path / "run", resume=True, method="mlp", console=QUIET)


def test_fit_leaves_the_random_numbers_of_its_caller_alone(tmp_path):
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    fit(vectors(), folder=tmp_path / "run", options=SHORT, console=QUIET)
    assert torch.equal(torch.rand(3), expected)


def test_inputs_that_would_be_misread_are_named(tmp_path):
    inputs, sets = vectors()
    gray = np.zeros((40, 28, 28), dtype=np.uint8)
    masked = np.ma.masked_array([[1.0, 2.0], [999.0, 999.0]], mask=np.array([[0, 0], [1, 1]], dtype=bool))
    for data, problem in (
        ((gray, sets), r"train, sample 0: uint8 of shape \(28, 28\) looks like a gray image"),
        ((inputs, [masked] * 40), "train, sample 0: a masked array; give only the elements"),
        ((inputs * 1e300, sets), "train, sample 0: the input must be finite numbers up to 1e37"),
        (zip(inputs, sets), "got zip; list.* makes a sequence of a generator"),
    ):
        with pytest.raises(UserError, match=problem):
            fit(data, folder=tmp_path / "run", console=QUIET)
    halves = torch.as_tensor(inputs).bfloat16()
    seen = memory((halves, sets)).train.batch(np.array([0]), 0).input
    assert isinstance(seen, torch.Tensor)
    assert seen.dtype == torch.float32


def test_images_are_normalized_as_fit_reads_them():
    images = np.random.default_rng(0).integers(0, 256, size=(10, 8, 8, 3), dtype=np.uint8)
    task = memory((images, [np.random.default_rng(n).random((2, 2)) for n in range(10)]))
    seen = task.normalize_input(images)
    assert isinstance(seen, torch.Tensor)
    assert torch.equal(seen, torch.from_numpy(images).permute(0, 3, 1, 2) / 255)
    assert task.normalize_input(seen) is seen
