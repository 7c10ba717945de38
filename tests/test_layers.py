"""The import graph: every import in src is an edge of the graph that CONTRIBUTING.md shows, and there is no cycle."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from setpredict import decoders

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "setpredict"
MODULES = {
    ".".join(("setpredict", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}
ENTRANCES = {"setpredict", "setpredict.__main__"}  # the lazy public names, and `python -m setpredict`


def documented_graph() -> dict[str, set[str]]:
    """For every layer of the graph in CONTRIBUTING.md the layers that stand to its left on a path."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    graphs = re.findall(r"^```text\n(.*?─▶.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(graphs) == 1, f"CONTRIBUTING.md must show one import graph, found {len(graphs)}"
    tokens = re.findall(r"─▶|[{};]|\w+", graphs[0])
    left_of: dict[str, set[str]] = {}

    def sequence(before: set[str]) -> set[str]:
        """item ─▶ item ─▶ …; returns all names in it."""
        seen: set[str] = set()
        while True:
            seen |= item(before | seen)
            if not tokens or tokens[0] != "─▶":
                return seen
            tokens.pop(0)

    def item(before: set[str]) -> set[str]:
        token = tokens.pop(0)
        if token != "{":
            left_of[token] = set(before)
            return {token}
        seen = sequence(before)
        while (token := tokens.pop(0)) == ";":
            seen |= sequence(before)
        assert token == "}", f"expected }} in the graph, got {token}"
        return seen

    sequence(set())
    assert not tokens, f"cannot read the graph from {' '.join(tokens)}"
    return left_of


def imports(module: str) -> Iterator[str]:
    """The modules of this package that a module imports, at the top, inside functions and under TYPE_CHECKING."""
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module} uses a relative import in line {node.lineno}"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            while name not in MODULES and "." in name:
                name = name.rpartition(".")[0]
            if name in MODULES and name not in ("setpredict", module):  # `setpredict` itself holds the version only
                yield name


def layer(module: str) -> str:
    return module.split(".")[1]


GRAPH = {module: sorted(set(imports(module))) for module in MODULES if module not in ENTRANCES}


def test_the_graph_names_every_layer():
    assert set(documented_graph()) == {layer(module) for module in GRAPH}


@pytest.mark.parametrize("module", sorted(GRAPH))
def test_every_import_is_in_the_documented_graph(module):
    allowed = documented_graph()[layer(module)]
    wrong = [other for other in GRAPH[module] if layer(other) != layer(module) and layer(other) not in allowed]
    assert not wrong, f"{module} imports {' and '.join(wrong)}, but {layer(module)} may import only {sorted(allowed)}"


def test_no_modules_import_each_other_in_a_cycle():
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> None:
        if module in path:
            cycle = [*path[path.index(module) :], module]
            pytest.fail(f"modules import each other in a cycle: {' ─▶ '.join(cycle)}")
        if module not in done:
            for other in GRAPH.get(module, ()):
                if not _is_own_package(module, other):
                    visit(other, [*path, module])
            done.add(module)

    for module in GRAPH:
        visit(module, [])


def _is_own_package(module: str, other: str) -> bool:
    """`setpredict.a.b` importing a sibling through `setpredict.a` (its __init__) is an edge of Python, not of ours."""
    return MODULES[other].name == "__init__.py" and module.startswith(other + ".")


def test_packages_and_files_stay_small():
    for folder in [PACKAGE, *(p for p in PACKAGE.rglob("*") if p.is_dir())]:
        modules = [p.name for p in folder.glob("*.py") if p.name != "__init__.py"]
        assert len(modules) <= 15, f"{folder.relative_to(ROOT)} holds {len(modules)} modules: make sub-packages"
    for module, path in MODULES.items():
        lines = len(path.read_text(encoding="utf-8").splitlines())
        assert lines <= 350, f"{module} has {lines} lines: one concept per file"


PROTOCOLS = {"Decoder", "Layered", "WithTargetLoss"}
DECODERS = {name for name in decoders.__all__ if hasattr(getattr(decoders, name), "needs")} - PROTOCOLS


def test_no_decoder_is_asked_for_its_class_outside_decoders():
    assert {"DSPN", "MLPDecoder", "TransformerDecoder"} <= DECODERS
    for module, path in MODULES.items():
        if module in ENTRANCES or layer(module) == "decoders":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                names = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
                wrong = names & DECODERS
                assert not wrong, f"{module}, line {node.lineno}: isinstance of {wrong}; ask the Decoder protocol"


def test_inference_needs_no_training():
    """What `setpredict.runs.predict` imports, directly or not, has no module of training/."""
    reached, waiting = set(), ["setpredict.runs.predict"]
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            waiting += GRAPH.get(module, [])
    assert not [m for m in reached if layer(m) == "training"]
