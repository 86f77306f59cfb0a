"""Pages of the site that are not in docs/: files at the top of the repository, and what is made from the code.

A hook of MkDocs. Links to files of the repository that are no pages lead to the repository.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from posixpath import normpath, relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from amqproxy.cli.command import app
from amqproxy.config import schema

ROOT = Path(__file__).parent.parent.parent
TOP = {
    "README.md": "index.md",
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Files at the top of the repository, and the pages that they are."""

REPOSITORY = "https://github.com/amqproxy/amqproxy/blob/main/"

LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?(?=\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, page in TOP.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text()))
    files.append(File.generated(config, "reference/commands.md", content=commands()))
    files.append(File.generated(config, "reference/configuration.md", content=configuration()))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_: Any) -> str:
    """The page, with links as they are on the site."""
    pages = {each.src_uri for each in files}
    of_page = {page: name for name, page in TOP.items()}
    place = page.file.src_uri
    source = of_page.get(place, f"docs/{place}")

    def moved(link: re.Match[str]) -> str:
        target = normpath(f"{source.rpartition('/')[0]}/{link[1]}").lstrip("/")
        found = TOP.get(target, target.removeprefix("docs/"))
        if found in pages:
            return relpath(found, place.rpartition("/")[0] or ".") + (link[2] or "")
        if (ROOT / target).exists():
            return REPOSITORY + target
        return link[0]  # which the strict build complains of

    return LINK.sub(moved, markdown)


def commands() -> str:
    """All subcommands and options, as their help has them."""
    text = app.generate_docs(output_format="markdown", recursive=True)
    return text.replace("# amqproxy\n", "# Commands\n", 1)


def configuration() -> str:
    """All keys of the config file: a table for each section."""
    definitions = schema()["$defs"]
    lines = [
        "# Configuration",
        "",
        "`amqproxy config schema` prints this as JSON Schema, `config show` with defaults as a file.",
        "",
    ]
    for path, name in _sections(definitions, "Config", "", set()):
        struct = definitions[name]
        lines += [f"## {path or 'The top level'}", "", _cell(struct.get("description", "")), ""]
        lines += ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
        for key, value in struct["properties"].items():
            is_required = key in struct.get("required", ())
            default = "" if is_required else f"`{_shown(value.get('default'))}`"
            lines.append(
                f"| `{key}` | {_kind(value, definitions)} | {default} | {_cell(value.get('description', ''))} |"
            )
        lines.append("")
    return "\n".join(lines)


def _sections(definitions: dict[str, Any], name: str, path: str, seen: set[str]) -> Iterator[tuple[str, str]]:
    """Each struct of the config once, with where it is in the file; rules have pages of their own."""
    if name in seen or "properties" not in definitions[name]:
        return
    seen.add(name)
    yield path, name
    for key, value in definitions[name]["properties"].items():
        if key == "rules":
            continue
        for reference, is_list in _references(value):
            inner = f"{path.strip('[]`')}.{key}".lstrip(".")
            yield from _sections(definitions, reference, f"`[[{inner}]]`" if is_list else f"`[{inner}]`", seen)


def _references(value: Any, is_list: bool = False) -> Iterator[tuple[str, bool]]:
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"].rpartition("/")[2], is_list
        for key, each in value.items():
            if key != "default":
                yield from _references(each, is_list or key == "items")
    elif isinstance(value, list):
        for each in value:
            yield from _references(each, is_list)


def _kind(value: dict[str, Any], definitions: dict[str, Any]) -> str:
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return _kind(definitions[name], definitions) if "properties" not in definitions[name] else "section"
    if "enum" in value:
        return " or ".join(f"`{each}`" for each in value["enum"])
    if "anyOf" in value or "allOf" in value:
        kinds = [_kind(each, definitions) for each in value.get("anyOf") or value["allOf"]]
        return " or ".join(dict.fromkeys(each for each in kinds if each and each != "null")) or str(
            value.get("type", "")
        )
    if value.get("type") == "array":
        return f"list of {_kind(value.get('items', {}), definitions) or 'values'}"
    return str(value.get("type", ""))


def _shown(default: Any) -> str:
    if default in (None, {}, [], ()):
        return "none"
    if isinstance(default, dict | list | tuple):
        return "see there"
    return str(default).lower() if isinstance(default, bool) else str(default)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
