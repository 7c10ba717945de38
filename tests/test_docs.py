"""The pages: figures are those in the files that commands wrote, examples run, and commands know their options."""

import doctest
import inspect
import json
import re
import shlex
from functools import wraps
from pathlib import Path

import pytest
import torch
from PIL import Image

import setpredict
from setpredict import EncoderConfig, ModelConfig, SetPredictor, Sets, cli
from setpredict.data.sources.folder import folder
from setpredict.presets import METHODS, PRESETS, preset
from setpredict.studies import configure, studies
from setpredict.web.limits import LARGEST_NUMBER, Limits
from setpredict.web.schema import DecodeRequest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def flowing(page: str) -> str:
    """Its text whatever the line breaks."""
    return " ".join(text(page).split())


def results(name: str):
    return json.loads((ROOT / "results" / name).read_text(encoding="utf-8"))


def demo_table(name: str) -> str:
    """The table of a demo, from the file that `setpredict demo` wrote."""
    rows = ["| decoder | after T steps | after 2T steps | parameters | steps trained |", "| --- |" + " ---: |" * 4]
    for model in results(name)["models"]:
        once, twice = model["error_x1000"].values()
        later = "–" if once == twice else f"{twice:.3f}"
        numbers = [f"{once:.3f}", later, f"{model['parameters']:,}", f"{model['steps_trained']:,}"]
        rows.append(f"| {model['name']} | " + " | ".join(numbers) + " |")
    return "\n".join(rows) + "\n"


def sweep_table() -> str:
    """How hard the hardest spot is, for every polygon of the picture."""
    heads = [
        "corners",
        "decoder",
        "median error ×1000",
        "largest error ×1000",
        "part of the period above 10 × the median",
    ]
    rows = ["| " + " | ".join([*heads, "largest jump"]) + " |", "| ---: | --- |" + " ---: |" * 4]
    models = results("polygons.json")["models"]
    for corners in models[0]["sweep"]:
        for model in models:
            s = model["sweep"][corners]
            errors = [f"{1000 * s['median_error']:.4f}", f"{1000 * s['largest_error']:.2f}"]
            numbers = [*errors, f"{100 * s['hard_fraction']:.1f} %", f"{s['largest_jump']:.0f}"]
            rows.append(f"| {corners} | {model['name']} | " + " | ".join(numbers) + " |")
    return "\n".join(rows) + "\n"


def choice_table() -> str:
    """Every method on every task that it was measured on, the best in bold."""
    rows = ["| task | set loss | MLP | DSPN | iDSPN |", "| --- | --- |" + " ---: |" * 3]
    for name, task in (
        ("demo.json", "8 random points through 64 numbers and back"),
        ("polygons.json", "polygons from their angle"),
    ):
        content = results(name)
        errors = [next(iter(model["error_x1000"].values())) for model in content["models"]]
        rows.append(f"| {task} | Hungarian | {_best_in_bold(errors, [content['seconds_each']] * 3, 's')} |")
    errors, minutes = [], []
    for row in ("MLP", "DSPN (then from an MLP's guess)", "iDSPN"):
        runs = [r for r in results("mnist-small.json")["runs"] if r["row"] == row]
        trained = [e for r in runs for e in r["evaluations"] if e["steps"] in (None, r["config"]["decoder"]["steps"])]
        found = [1000 * e["metrics"]["chamfer"] for e in trained]
        errors.append(sum(found) / len(found) if found else None)
        minutes.append(max((r["minutes"] for r in runs), default=0))
    rows.append(f"| MNIST digits through 64 numbers and back | Chamfer | {_best_in_bold(errors, minutes, 'min')} |")
    return "\n".join(rows) + "\n"


def _best_in_bold(errors: list, times: list, unit: str) -> str:
    least = min(e for e in errors if e is not None)
    shown = [f"**{e:.3f}**" if e == least else "–" if e is None else f"{e:.3f}" for e in errors]
    return " | ".join(f"{e} ({t:.0f} {unit})" if e != "–" else e for e, t in zip(shown, times))


def distributed_table() -> str:
    content = json.loads((ROOT / "benchmarks" / "results" / "distributed.json").read_text())
    rows = ["| model | processes | parameters | step | of it communication |", "| --- |" + " ---: |" * 4]
    for r in content["rows"]:
        share = f"{100 * r['communication_share']:.0f} %" if r["processes"] > 1 else "–"
        numbers = [str(r["processes"]), f"{r['parameters']:,}", f"{r['step_ms']:.0f} ms", share]
        rows.append(f"| {r['case']} | " + " | ".join(numbers) + " |")
    return "\n".join(rows) + "\n"


@pytest.mark.parametrize(
    ("page", "table"),
    [
        ("README.md", lambda: demo_table("demo.json")),
        ("docs/method.md", choice_table),
        ("docs/polygons.md", sweep_table),
        ("docs/scale.md", distributed_table),
    ],
)
def test_the_tables_are_those_of_the_files(page, table):
    assert table() in text(page), f"{page} should hold:\n{table()}"


@pytest.mark.parametrize("page", ["README.md", "docs/method.md"])
def test_the_factor_between_list_and_set_is_the_measured_one(page):
    mlp, _, idspn = (next(iter(m["error_x1000"].values())) for m in results("demo.json")["models"])
    assert f"errs {mlp / idspn:.0f} times as much as iDSPN" in flowing(page)


def test_a_whole_table_costs_what_the_readme_says():
    study = studies()["mnist"]
    minutes = [configure(study, row, "small", 0).train.max_minutes for row in study.rows]
    assert (len(minutes), set(minutes)) == (7, {50.0})
    assert f"takes {7 * 6 * 50 / 60:g} hours: seven rows with six seeds each, 50 minutes" in flowing("README.md")


def test_training_ends_when_the_readme_says():
    groups = {
        5: ("multisets", "polygons"),
        30: ("scenes-state", "scenes-box", "clevr-state", "clevr-box"),
        50: ("mnist",),
    }
    for minutes, names in groups.items():
        assert {preset(n, m, "small").train.max_minutes for n in names for m in METHODS} == {minutes}
    assert preset("folder", "dspn", "small").train.max_minutes == 50
    said = "after 5 minutes for multisets and polygons, 30 for scenes and CLEVR, 50 for MNIST and your own data"
    assert said in flowing("README.md")


def test_every_link_between_pages_leads_somewhere():
    for page in [*PAGES, ROOT / "RESULTS.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_page_is_on_the_reading_list():
    for page in (ROOT / "docs").glob("*.md"):
        assert f"](docs/{page.name})" in text("README.md").partition("## Where to read on")[2]


def test_results_are_those_of_the_files():
    from setpredict.report.results import differences

    assert differences(ROOT / "results", ROOT / "RESULTS.md", ROOT / "docs" / "images") == ""


def commands() -> list[str]:
    """Every `setpredict …` of the pages that has arguments: in lines of code, and in the text."""
    found = []
    for page in PAGES:
        content = page.read_text(encoding="utf-8")
        blocks = "".join(re.findall(r"```sh\n(.*?)```", content, re.S)).replace("\\\n", " ")
        lines = re.findall(r"^(?:    )?(?:torchrun .*-m )?(setpredict .*)$", blocks + "\n" + content, re.M)
        rest = re.sub(r"```.*?```", "", content, flags=re.S)
        found += [line.partition("#")[0].strip() for line in lines] + re.findall(r"`(setpredict [^`]*)`", rest)
    return sorted({c for c in found if len(c.split()) > 2 and "…" not in c and "--resume" not in c})


@pytest.mark.parametrize("command", commands())
def test_commands_have_the_options_that_they_are_given(command: str, monkeypatch: pytest.MonkeyPatch, capsys):
    called = []

    def only_read(function):
        return wraps(function)(lambda *args, **kwargs: called.append(args or kwargs))

    monkeypatch.setattr(cli, "COMMANDS", {name: only_read(f) for name, f in cli.COMMANDS.items()})
    monkeypatch.setattr(cli, "_train", lambda *args: called.append(args))
    words = [word.partition("|")[0] for word in shlex.split(command.replace("\\|", "|").replace("PRESET", "multisets"))]
    assert cli.run(words[1:]) == 0, capsys.readouterr().err
    assert called


def test_the_commands_are_found():
    found = commands()
    assert "setpredict reproduce mnist --rows MLP --runs 1 --minutes 12" in found
    assert "setpredict train multisets --encoder.kind my_encoder:MeanEncoder" in found
    assert "setpredict train folder --data.folder my-data" in found
    assert len(found) > 15


def test_presets_and_methods_are_all_named():
    named = re.findall(r"`([a-z-]+)`", text("README.md").partition("Presets: ")[2].partition("\n\n")[0])
    assert set(PRESETS) <= set(named)
    assert f"--method {'|'.join(METHODS)}" in text("README.md").replace("\\|", "|")


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with caches of its own and the modules in it in reach."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SETPREDICT_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def run_examples(page: str) -> None:
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    seen = doctest.testfile(str(ROOT / page), module_relative=False, optionflags=flags, encoding="utf-8")
    assert seen.attempted
    assert not seen.failed


def test_examples_of_the_method_run(workplace: Path):
    run_examples("docs/method.md")


def test_examples_of_the_python_api_run(workplace: Path):
    assert "`setpredict train multisets` leaves `runs/multisets-dspn-0` behind" in text("docs/python.md")
    small = ["--max-steps", "2", "--data.train", "64", "--data.test", "8", "--latent", "8", "--encoder.hidden", "8"]
    assert cli.run(["train", "multisets", *small, "--decoder.steps", "2"]) == 0
    run_examples("docs/python.md")


def test_the_set_encoder_of_the_page_works(workplace: Path):
    (code,) = re.findall(r"```python\n(# my_encoder\.py\n.*?)```", text("docs/method.md"), re.S)
    (workplace / "my_encoder.py").write_text(code, encoding="utf-8")
    config = ModelConfig(8, 2, encoder=EncoderConfig("my_encoder:MeanEncoder"))
    model = SetPredictor.from_config(config)
    target = Sets.from_list(torch.rand(4, 8, 2))
    model(target).final.elements.sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    model.save_pretrained("saved")
    SetPredictor.from_pretrained("saved", allow_own_code=True)


def test_the_data_of_the_page_are_read(workplace: Path):
    (lines,) = re.findall(r"```json\n(.*?)```", text("docs/data.md"), re.S)
    assert lines.count("\n") == 3
    (workplace / "train.jsonl").write_text(lines, encoding="utf-8")
    (workplace / "images").mkdir()
    for line in lines.splitlines():
        Image.new("RGB", (128, 96)).save(workplace / json.loads(line)["input"])
    task = folder(workplace, size=64)
    assert (task.kind, task.max_size, task.features) == ("boxes", 2, 6)
    assert task.categories == {"x4": ("cat", "dog")}
    assert task.test is task.val
    (settings,) = re.findall(r"`task\.json` may hold `(\{.*?\})`", text("docs/data.md"))
    (workplace / "task.json").write_text(settings, encoding="utf-8")
    assert folder(workplace, size=64).categories == {"animal": ("cat", "dog")}


def signature(name: str) -> str:
    """A public name with its parameters and defaults."""
    try:
        parameters = inspect.signature(getattr(setpredict, name)).parameters.values()
    except ValueError:  # an exception
        return name
    words = []
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        default = "…" if repr(p.default) == "<factory>" else repr(p.default).replace("'", '"')
        words.append(p.name if p.default is p.empty else f"{p.name}={default}")
    return f"{name}({', '.join(words)})"


@pytest.mark.parametrize("name", setpredict.__all__)
def test_every_public_name_is_described(name: str):
    assert f"| `{signature(name)}` | " in text("docs/python.md")


def test_the_bounds_of_the_api_are_all_told():
    schema = json.dumps(DecodeRequest.model_json_schema())
    bounds = {int(n) for n in re.findall(r'"(?:maxItems|maxLength|maximum)": (\d+)', schema)} - {int(LARGEST_NUMBER)}
    limits = Limits()
    bounds |= {limits.body_bytes, limits.image_pixels, limits.connections, limits.waiting, limits.together}
    bounds |= {int(limits.seconds), int(limits.body_seconds), int(limits.head_seconds)}
    assert len(bounds) > 8
    for bound in bounds:
        assert re.search(rf"(?<![\d,]){bound:,}(?![\d,])", text("docs/api.md")), f"{bound:,}"
