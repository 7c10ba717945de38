"""The documentation site: docstrings of all public names, links and notebooks as pages, and notebooks that run."""

import ast
import inspect
import json
import re
import textwrap
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import setpredict

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def module(name: str):
    """A module of docs/site, which MkDocs imports by its path."""
    spec = spec_from_file_location(name, ROOT / "docs" / "site" / f"{name}.py")
    assert spec
    assert spec.loader
    loaded = module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def documented(thing: object) -> set[str]:
    """The arguments that a docstring explains, in its "Args:" or below the fields of a dataclass."""
    text = inspect.getdoc(thing) or ""
    section = re.search(r"^Args:\n((?:    .*\n|\n)*)", text + "\n", re.M)
    found = set(re.findall(r"^    (\w[\w, ]*):", section[1], re.M)) if section else set()
    names = {name.strip() for several in found for name in several.split(",")}
    if not inspect.isclass(thing):
        return names
    body = ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]
    assert isinstance(body, ast.ClassDef)
    for field, after in zip(body.body, body.body[1:]):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(after, ast.Expr):
            names.add(field.target.id)
    return names


def arguments(thing) -> set[str]:
    if inspect.isclass(thing) and (issubclass(thing, Exception) or getattr(thing, "_is_protocol", False)):
        return set()
    return set(inspect.signature(thing).parameters)


@pytest.mark.parametrize("name", setpredict.__all__)
def test_every_public_name_has_its_arguments_and_an_example(name: str):
    thing = getattr(setpredict, name)
    text = inspect.getdoc(thing) or ""
    assert ">>> " in text, f"{name} has no example"
    assert arguments(thing) - documented(thing) == set(), f"{name} has arguments without a word on them"


def test_links_of_pages_are_those_of_the_site():
    pytest.importorskip("mkdocs", reason="make docs installs it")
    links = module("hooks").site_links
    assert links("[a](docs/method.md#options) ![b](docs/images/demo.png)", "") == (
        "[a](method.md#options) ![b](images/demo.png)"
    )
    assert links("[r](../RESULTS.md) [m](method.md) [x](https://a.b/c)", "docs") == (
        "[r](RESULTS.md) [m](method.md) [x](https://a.b/c)"
    )
    assert links("[m](../method.md) [n](points.ipynb)", "docs/notebooks") == "[m](../method.md) [n](points.md)"
    assert links("the [README](README.md), [code](src/setpredict)", "") == "the [README](index.md), code"
    assert links("```md\n[a](docs/method.md)\n```\n", "") == "```md\n[a](docs/method.md)\n```\n"


def test_every_page_is_in_the_navigation():
    pytest.importorskip("mkdocs", reason="make docs installs it")
    from mkdocs.config import load_config

    config = module("hooks").on_config(load_config(str(ROOT / "mkdocs.yml")))
    listed = json.dumps(config.nav)
    for page in [*(ROOT / "docs").glob("*.md"), *NOTEBOOKS]:
        assert f"{page.stem}.md" in listed, page.name
    for name in setpredict.__all__:
        assert f"reference/{name}.md" in listed, name


def test_examples_in_docstrings_are_code():
    pytest.importorskip("griffe", reason="make docs installs it")
    fenced = module("examples").fenced
    text = "One line.\n\n>>> a = [\n...     1]\n>>> a\n[1]\n\nMore.\n"
    assert fenced(text) == "One line.\n\n```pycon\n>>> a = [\n...     1]\n>>> a\n[1]\n```\n\nMore.\n"
    assert fenced("No example.") == "No example."


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_holds_its_outputs(path: Path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert not [output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"]
    assert path.stat().st_size < 300_000


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore")  # of the kernel
def test_a_notebook_runs(path: Path, tmp_path: Path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = nbformat.read(path, as_version=4)
    place = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=None, kernel_name="python3", resources=place).execute()
    assert [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
