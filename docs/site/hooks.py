"""What MkDocs does beside building docs/: pages of the root folder, notebooks, and a page for each public name.

Nothing is copied by hand: the pages are generated from the files that GitHub shows, with the links of the site.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path, PurePosixPath
from posixpath import relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
FROM_ROOT = {"README.md": "index.md", "RESULTS.md": "RESULTS.md", "CHANGELOG.md": "CHANGELOG.md"}
FROM_ROOT["CONTRIBUTING.md"] = "CONTRIBUTING.md"
"""Pages of the root folder, and their paths in the site."""
DEMO = '<div id="demo"></div>\n<script src="javascripts/demo.js"></script>\n'
"""Where `setpredict site` appears on the front page; `make docs` writes it to demo/ if there is npm."""
LINK = re.compile(r"(?P<open>\]\()(?P<target>[^)#:\s]+)(?P<anchor>#[^)]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Complete the navigation: notebooks, one page per public name, and pages that mkdocs.yml does not name."""
    nav: list[Any] = config.nav or []
    sections = {name: entry for item in nav for name, entry in item.items()}
    sections["Notebooks"] += [{_title(path): f"notebooks/{path.stem}.md"} for path in _notebooks()]
    for package, names in public_names().items():
        sections["Python"].append({package: [{name: f"reference/{name}.md"} for name in names]})
    listed = str(nav)
    new = [path.name for path in sorted((ROOT / "docs").glob("*.md")) if path.name not in listed]
    sections["Guides"][:0] = [*(["tutorial.md"] if "tutorial.md" in new else [])]
    sections["Guides"] += [name for name in new if name != "tutorial.md"]
    config.watch += [str(ROOT / name) for name in FROM_ROOT]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for name, path in FROM_ROOT.items():
        files.append(File.generated(config, path, content=(ROOT / name).read_text(encoding="utf-8")))
    for path in _notebooks():
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=notebook_page(path)))
    for package, names in public_names().items():
        for name in names:
            text = f"---\ntitle: {name}\n---\n\n::: setpredict.{package}.{name}\n"
            files.append(File.generated(config, f"reference/{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links and HTML as the site needs them, where GitHub needs others."""
    source = next((name for name, path in FROM_ROOT.items() if path == page.file.src_uri), None)
    text = site_links(markdown, "" if source else f"docs/{PurePosixPath(page.file.src_uri).parent}")
    if page.file.src_uri == "index.md" and os.environ.get("SETPREDICT_DEMO"):
        heading, _, rest = text.partition("\n")
        text = f"{heading}\n\n{DEMO}\n{rest}"
    text = text.replace("<details>", '<details markdown="1">').replace('src="docs/images/', 'src="images/')
    return re.sub(r"`[^`\n]*`", lambda code: code[0].replace("\\|", "|"), text)  # in tables, code is no column


def site_links(text: str, folder: str) -> str:
    """The links of a page in a folder of the repository, as links within the site; code outside of it becomes text."""
    return "".join(
        part if part.startswith("```") else _replace_links(part, folder)
        for part in re.split(r"(^```.*?^```)", text, flags=re.DOTALL | re.MULTILINE)
    )


def _replace_links(text: str, folder: str) -> str:
    def replace(found: re.Match[str]) -> str:
        path = (ROOT / folder / found["target"]).resolve()
        anchor = found["anchor"] or ""
        if not path.is_relative_to(ROOT) or not path.exists():
            return found[0]
        inside = path.relative_to(ROOT).as_posix()
        target = FROM_ROOT.get(inside) or (inside.removeprefix("docs/") if inside.startswith("docs/") else None)
        if target is None:
            return OUTSIDE
        target = relpath(target.replace(".ipynb", ".md"), PurePosixPath(folder).relative_to("docs") if folder else ".")
        return f"]({target}{anchor})"

    text = LINK.sub(replace, text)
    return re.sub(r"\[([^\[\]]*)" + re.escape(OUTSIDE), r"\1", text)


OUTSIDE = "](outside the site)"


def public_names() -> dict[str, list[str]]:
    """The public names by the module that has them, without importing torch."""
    import setpredict

    found: dict[str, list[str]] = {}
    for name in setpredict.__all__:
        found.setdefault(setpredict._MODULE_OF[name], []).append(name)
    return dict(sorted(found.items()))


def notebook_page(path: Path) -> str:
    """A notebook as a page: text, code and the outputs that it holds."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif source:
            parts.append(f"```python\n{source}\n```")
            parts += [_output(output) for output in cell["outputs"]]
    first, *rest = parts
    download = f'<a href="{path.name}" download>Download this notebook</a>'
    return "\n\n".join([first, download, *rest]) + "\n"


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        return f"![The picture that this cell draws](data:image/png;base64,{''.join(data['image/png']).strip()})"
    text = "".join(output.get("text", data.get("text/plain", ""))).rstrip()
    return f"```text\n{text}\n```" if text else ""


def _notebooks() -> list[Path]:
    return sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"), reverse=True)


def _title(path: Path) -> str:
    """The heading of a notebook."""
    first = json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"]
    return "".join(first).splitlines()[0].lstrip("# ")
