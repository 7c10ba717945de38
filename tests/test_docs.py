"""The pages: tables are up to date, numbers in the text are those of files, examples run, and commands are valid."""

import dataclasses
import doctest
import json
import re
import shlex
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import FrameType

import pytest
import torch
from PIL import Image

import setpredict
from benchmarks import tutorial
from setpredict import DecoderConfig, EncoderConfig, ModelConfig, SetPredictor, Sets
from setpredict.cli import main as cli
from setpredict.data.sources.folder import folder
from setpredict.presets import METHODS, PRESETS, preset
from setpredict.report import doc_tables
from setpredict.report.results import differences
from setpredict.studies import configure, studies
from setpredict.web.limits import LARGEST_NUMBER, Limits
from setpredict.web.schema import DecodeRequest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SMALL = ["--max-steps", "2", "--data.train", "64", "--data.test", "8", "--latent", "8", "--encoder.hidden", "8"]


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def flowing(page: str) -> str:
    """Its text without line breaks."""
    return " ".join(text(page).split())


def results(name: str):
    return json.loads((ROOT / "results" / name).read_text(encoding="utf-8"))


def test_generated_tables_are_up_to_date(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    monkeypatch.chdir(ROOT)
    code = doc_tables.main(["--check"])
    assert code == 0, "".join(capsys.readouterr())


@pytest.mark.parametrize("name", doc_tables.TABLES)
def test_every_generated_table_is_on_a_page(name: str):
    assert [page.name for page in PAGES if f"<!-- begin: {name} -->" in page.read_text(encoding="utf-8")]


def test_results_are_those_of_the_files():
    assert differences(ROOT / "results", ROOT / "RESULTS.md", ROOT / "docs" / "images") == ""


def test_the_factor_between_list_and_set_is_the_measured_one():
    mlp, _, idspn = (next(iter(m["error_x1000"].values())) for m in results("demo.json")["models"])
    assert f"error of the MLP decoder is {mlp / idspn:.0f} times that of iDSPN" in flowing("README.md")
    runs = results("points-small.json")["runs"]
    mlp, idspn = (
        sum(run["evaluations"][0]["metrics"]["hungarian"] for run in runs if run["row"] == row)
        for row in ("MLP", "iDSPN")
    )
    assert f"error of the MLP decoder is {mlp / idspn:.0f} times that of iDSPN" in flowing("docs/method.md")


def test_a_complete_table_costs_what_the_readme_says():
    study = studies()["mnist"]
    minutes = [configure(study, row, "small", 0).train.max_minutes for row in study.rows]
    assert (len(minutes), minutes.count(None), set(minutes)) == (8, 1, {50.0, None})
    said = "about two days: eight rows with six seeds each, 50 minutes per run and longer for one row"
    assert said in flowing("README.md")


def test_training_ends_when_the_readme_says():
    groups = {
        5: ("multisets", "polygons", "numbering"),
        30: ("scenes-state", "scenes-box", "clevr-state", "clevr-box"),
        50: ("mnist",),
    }
    for minutes, names in groups.items():
        assert {preset(n, m, "small").train.max_minutes for n in names for m in METHODS} == {minutes}
    assert {preset("folder", m, "small").train.max_minutes for m in METHODS} == {15}
    said = "5 minutes for multisets, polygons and numbering, 30 for scenes and CLEVR, 50 for MNIST, and 15 for your"
    assert said in flowing("README.md")


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "RESULTS.md", ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_every_link_between_pages_has_a_target(page: Path):
    for target, anchor in re.findall(r"\]\(([^)#:]*)#?([^):]*)\)", page.read_text(encoding="utf-8")):
        file = page.parent / target if target else page
        assert file.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(file), f"{page.name} links to {target}#{anchor}"


def test_every_page_is_listed_in_the_readme():
    for page in (ROOT / "docs").glob("*.md"):
        assert f"](docs/{page.name})" in text("README.md").partition("## Documentation")[2]


def test_the_changelog_starts_with_this_version():
    assert re.findall(r"^## \[(.*?)\] - \d{4}-\d\d-\d\d$", text("CHANGELOG.md"), re.M)[0] == setpredict.__version__


def commands() -> list[str]:
    """Every `setpredict …` of the pages that has arguments: in code blocks, and in the text."""
    found = []
    for page in PAGES:
        content = page.read_text(encoding="utf-8")
        blocks = "".join(re.findall(r"```sh\n(.*?)```", content, re.S)).replace("\\\n", " ")
        lines = re.findall(r"^(?:    )?(?:torchrun .*-m )?(setpredict .*)$", blocks + "\n" + content, re.M)
        rest = re.sub(r"```.*?```", "", content, flags=re.S)
        found += [line.partition("#")[0].strip() for line in lines] + re.findall(r"`(setpredict [^`]*)`", rest)
    whole = {c for c in found if "…" not in c and "--resume" not in c}
    return sorted(c for c in whole if len(c.replace("data check", "data-check").split()) > 2)


@pytest.mark.parametrize("command", commands())
def test_commands_are_valid(command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture):
    called = []

    def only_parsed(function):
        return wraps(function)(lambda *args, **kwargs: called.append(args or kwargs))

    monkeypatch.setattr(cli, "COMMANDS", {name: only_parsed(f) for name, f in cli.COMMANDS.items()})
    monkeypatch.setattr("setpredict.cli.train._train", lambda *args: called.append(args))
    monkeypatch.setattr("setpredict.cli.compare._compare", lambda *args: called.append(args))
    words = [word.partition("|")[0] for word in shlex.split(command.replace("\\|", "|").replace("PRESET", "multisets"))]
    if "--help" in words:
        with pytest.raises(SystemExit, match="0"):
            cli.run(words[1:])
        return
    assert cli.run(words[1:]) == 0, capsys.readouterr().err
    assert called


def test_the_commands_are_found():
    found = commands()
    assert "setpredict reproduce mnist --rows MLP --runs 1 --minutes 12 --results my-results" in found
    assert "setpredict train multisets --encoder.kind my_encoder:MeanEncoder" in found
    assert "setpredict train folder --data.folder my-data" in found
    assert len(found) > 15


def test_presets_and_methods_are_all_named():
    named = re.findall(r"`([a-z-]+)`", text("README.md").partition("Presets: ")[2].partition("\n\n")[0])
    assert set(PRESETS) <= set(named)
    assert f"--method {'|'.join(METHODS)}" in text("README.md").replace("\\|", "|")


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with its own caches, whose modules can be imported."""
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


def test_examples_of_the_evaluation_run(workplace: Path):
    run_examples("docs/evaluation.md")


def test_examples_of_the_python_api_run(workplace: Path):
    assert "`setpredict train multisets` writes the run `runs/multisets-dspn-0`" in text("docs/python.md")
    assert cli.run(["train", "multisets", *SMALL, "--decoder.steps", "2"]) == 0
    run_examples("docs/python.md")


TUTORIAL = {
    "scenes": ["--train", "24", "--val", "4", "--size", "64"],
    "train": [
        "--data.size",
        "64",
        "--max-steps",
        "6",
        "--latent",
        "8",
        "--encoder.hidden",
        "8",
        "--input.widths",
        "8",
        "8",
    ],
    "plot": ["--samples", "0"],
}
"""What makes the commands of the tutorial short."""


def test_the_tutorial_works_from_images_to_results(workplace: Path, capsys: pytest.CaptureFixture):
    found = tutorial.commands(text("docs/tutorial.md"))
    assert [words[0] for words in found] == ["scenes", "data", "train", "evaluate", "plot", "predict"]
    for words in found:
        assert cli.run([*words, *TUTORIAL.get(words[0], [])]) == 0, words
    files = ["data-check.png", "results.json", "results.csv", "drawn/val_000003.png", "my-images/train.json"]
    files += ["runs/folder-0/report.html", "runs/folder-0/plots/progression.png"]
    assert [name for name in files if not (workplace / name).is_file()] == []
    with Image.open("drawn/val_000000.png") as drawn, Image.open("my-images/images/val_000000.png") as original:
        assert drawn.size == original.size == (96, 64)
    capsys.readouterr()
    run_examples("docs/tutorial.md")


def test_pictures_of_the_tutorial_are_small():
    pictures = re.findall(r"!\[.*?\]\((images/tutorial-.*?)\)", text("docs/tutorial.md"))
    assert len(pictures) == 2
    for name in pictures:
        assert (ROOT / "docs" / name).stat().st_size < 150_000, name


def test_named_methods_and_attributes_exist():
    named = re.findall(r"^\| `(\w+)\.(\w+)` \|", text("docs/python.md"), re.M)
    assert len(named) > 10
    for owner, name in named:
        kind = getattr(setpredict, owner)
        fields = [f.name for f in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
        assert hasattr(kind, name) or name in fields, f"{owner}.{name}"


def module_of_the_page(name: str, workplace: Path) -> None:
    """Write the module of docs/method.md that starts with its file name to the working directory."""
    (code,) = re.findall(rf"```python\n(# {name}\.py\n.*?)```", text("docs/method.md"), re.S)
    (workplace / f"{name}.py").write_text(code, encoding="utf-8")


def test_the_set_encoder_of_the_page_works(workplace: Path):
    module_of_the_page("my_encoder", workplace)
    config = ModelConfig(8, 2, encoder=EncoderConfig("my_encoder:MeanEncoder"))
    model = SetPredictor.from_config(config)
    target = Sets.from_list(torch.rand(4, 8, 2))
    model(target).final.elements.sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    model.save_pretrained("saved")
    SetPredictor.from_pretrained("saved", allow_own_code=True)


@pytest.mark.parametrize("variable", [True, False])
def test_the_decoder_of_the_page_works(variable: bool, workplace: Path):
    module_of_the_page("my_decoder", workplace)
    config = ModelConfig(8, 2, variable, decoder=DecoderConfig("my_decoder:RefiningDecoder"))
    model = SetPredictor.from_config(config)
    assert isinstance(model.decoder, setpredict.Decoder)
    target = Sets.from_list(torch.rand(4, 8, 2))
    prediction = model(target, target)
    assert (prediction.steps, model(target, steps=7).steps) == (3, 7)
    assert bool((prediction.mask == 1).all()) is not variable
    (prediction.elements.sum() + prediction.mask.sum()).backward()
    assert all(p.grad is not None for p in model.parameters())


def test_the_decoder_of_the_page_trains_and_is_reported_on(workplace: Path, capsys: pytest.CaptureFixture):
    module_of_the_page("my_decoder", workplace)
    command = "setpredict train multisets --decoder.kind my_decoder:RefiningDecoder"
    assert command in commands()
    assert cli.run([*command.split()[1:], *SMALL]) == 0
    assert cli.run(["evaluate", "runs/multisets-dspn-0", "--steps", "3", "6"]) == 0
    assert cli.run(["plot", "runs/multisets-dspn-0", "--samples", "0"]) == 0
    run = setpredict.load("runs/multisets-dspn-0")
    assert (run.method, run.steps) == ("RefiningDecoder", 3)
    assert "RefiningDecoder" in (workplace / "runs" / "multisets-dspn-0" / "report.html").read_text(encoding="utf-8")


def test_the_data_of_the_page_are_read(workplace: Path):
    (lines,) = re.findall(r"```json\n(.*?)```", text("docs/data.md"), re.S)
    assert lines.count("\n") == 3
    (workplace / "train.jsonl").write_text(lines, encoding="utf-8")
    (workplace / "images").mkdir()
    for line in lines.splitlines():
        Image.new("RGB", (128, 96)).save(workplace / json.loads(line)["input"])
    task = folder(workplace, size=64)
    assert (task.kind, task.max_size, task.features) == ("boxes", 2, 6)
    assert task.categories == {"category": ("cat", "dog")}
    assert task.test is task.val
    (settings,) = re.findall(r"`task\.json` may hold `(\{.*?\})`", text("docs/data.md"))
    (workplace / "task.json").write_text(settings, encoding="utf-8")
    assert folder(workplace, size=64).categories == {"animal": ("cat", "dog")}


def walk(command: str) -> list[str]:
    """The modules in a list of CONTRIBUTING.md, in order."""
    part = text("CONTRIBUTING.md").partition(f"### A walk through `{command}`")[2].partition("\n#")[0]
    return re.findall(r"^\d+\. `(.*?\.py)`", part, re.M)


@contextmanager
def modules_in_order() -> Iterator[list[str]]:
    """The modules of the package whose functions are called, in the order of their first call."""
    source, found = ROOT / "src" / "setpredict", []

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event != "call" or code.co_name in ("<module>", "__create_fn__", "__getattr__") or not code.co_flags & 2:
            return
        name = str(frame.f_globals.get("__file__", ""))
        if name.startswith(str(source)) and (name := str(Path(name).relative_to(source))) not in found:
            found.append(name)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def test_prediction_visits_the_modules_of_the_walk(workplace: Path):
    Image.new("RGB", (128, 96)).save("image.png")
    with modules_in_order() as found:
        assert cli.run(["predict", "scenes-box", "image.png"]) == 0
    listed = walk("setpredict predict MODEL IMAGE")
    assert len(listed) > 15
    assert [module for module in found if module in listed] == listed


def test_training_visits_the_modules_of_the_walk(workplace: Path):
    """On points instead of digits, which need no files: all but the modules that only MNIST uses."""
    chamfer = ["--loss.set", "chamfer", "--loss.masks", "feature", "--decoder.steps", "2"]
    with modules_in_order() as found:
        assert cli.run(["train", "multisets", *SMALL, *chamfer]) == 0
    listed = walk("setpredict train mnist")
    assert len(set(listed)) == len(listed) > 25
    only_mnist = ["data/sources/mnist.py", "data/io/cache.py", "data/splits.py"]
    assert all((ROOT / "src" / "setpredict" / module).is_file() for module in listed)
    expected = [module for module in listed if module not in only_mnist]
    assert [module for module in found if module in expected] == expected


def test_the_limits_of_the_http_api_are_all_documented():
    schema = json.dumps(DecodeRequest.model_json_schema())
    bounds = {int(n) for n in re.findall(r'"(?:maxItems|maxLength|maximum)": (\d+)', schema)} - {int(LARGEST_NUMBER)}
    bounds |= {int(getattr(Limits(), field.name)) for field in dataclasses.fields(Limits)}
    assert len(bounds) > 8
    for bound in bounds:
        assert re.search(rf"(?<![\d,]){bound:,}(?![\d,])", text("docs/api.md")), f"{bound:,}"
