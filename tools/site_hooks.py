"""Hooks of mkdocs.yml: the pages are written for GitHub, and come out as they look there.

- The pages beside docs/ (README, ARCHITECTURE ...) are taken in, and links to them led there.
- A link to what is in the repository and not on the site (a folder, a workflow) keeps its words and loses its link.
- Headings get the anchors that GitHub makes; a list may follow a line of text; `\\<` is an escape.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
# Pages beside docs/, by the name they get: docs/README.md is the first page, so that of the package is `project`.
BESIDE = {"README.md": "project.md"} | {name: name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")}
FENCE = re.compile(r"^(?: *)(```|~~~)")
LINK = re.compile(r"(!?)\[((?:[^\]\[]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
CODE = re.compile(r"(`+[^`]*`+)")
ITEM = re.compile(r"(?:[-*]|\d+\.) ")


def anchor(heading: str, separator: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w-]", "", heading.lower().replace(" ", separator))


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """GitHub's anchors."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = anchor
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Take the pages beside docs/ in."""
    for name, taken in BESIDE.items():
        files.append(File.generated(config, taken, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The page as Python-Markdown must be given it, so that it looks as on GitHub."""
    beside = {taken: name for name, taken in BESIDE.items()}.get(page.file.src_uri)
    folder = ROOT if beside is not None else (ROOT / "docs" / page.file.src_uri).parent
    out: list[str] = []
    fence = ""
    for line in markdown.split("\n"):
        mark = FENCE.match(line)
        if mark is not None and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
        elif not fence:
            before = out[-1] if out else ""
            if ITEM.match(line) and before.strip() and not ITEM.match(before) and not before.startswith(" "):
                out.append("")
            line = "".join(part if part.startswith("`") else part.replace("\\<", "&lt;") for part in CODE.split(line))
        out.append(line)
    return _outside_fences("\n".join(out), lambda text: LINK.sub(lambda match: _link(match, folder), text))


def _outside_fences(text: str, change: Any) -> str:
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else change(part) for part in parts)


def _link(match: re.Match[str], folder: Path) -> str:
    image, words, target = match.groups()
    if re.match(r"[a-z]+:|#", target):
        return match[0]
    path, hash_, place = target.partition("#")
    found = (folder / path).resolve()
    docs = ROOT / "docs"
    if found.is_relative_to(docs) and not found.is_dir():
        return f"{image}[{words}]({found.relative_to(docs).as_posix()}{hash_}{place})"
    if found.parent == ROOT and found.name in BESIDE:
        return f"[{words}]({BESIDE[found.name]}{hash_}{place})"
    return words
