"""Pages of the site that are not in docs/: files at the top of the repository, and what is made from the code.

A hook of MkDocs. Links to files of the repository that are no pages lead to the repository.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from posixpath import normpath, relpath
from typing import Any, get_args

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from msgspec.json import schema_components

from amqproxy.cli.command import app
from amqproxy.cli.help import command_reference
from amqproxy.configuration.config import Config
from amqproxy.configuration.environment import variables_of
from amqproxy.configuration.schema import schema
from amqproxy.control.request import AnyRequest

ROOT = Path(__file__).parent.parent.parent
TOP = {
    "README.md": "index.md",
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Files at the top of the repository, and the pages that they are."""

LOGO = "dashboard/ui/public/favicon.svg"

REPOSITORY = "https://github.com/amqproxy/amqproxy/blob/main/"

STABLE = re.compile(r"^\| ([^|]+?) \| ((?:`amqproxy\.[\w.]+` ?)+) ?\|$", re.MULTILINE)
"""Rows of docs/python.md: a subject, and its stable names."""

LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?(?=\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, page in TOP.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text()))
    files.append(File.generated(config, "reference/commands.md", content=commands()))
    files.append(File.generated(config, "reference/configuration.md", content=configuration()))
    files.append(File.generated(config, "reference/rules.md", content=rules()))
    files.append(File.generated(config, "reference/json.md", content=json_objects()))
    files.append(File.generated(config, "reference/requests.md", content=requests()))
    files.append(File.generated(config, "images/logo.svg", abs_src_path=str(ROOT / LOGO)))
    if stable := files.get_file_from_path("python.md"):
        files.append(File.generated(config, "reference/python.md", content=python_names(stable.content_string)))
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
    return command_reference(app).replace("# amqproxy\n", "# Commands\n", 1)


def configuration() -> str:
    """All keys of the config file: a table for each section."""
    definitions = schema()["$defs"]
    lines = [
        "# Configuration",
        "",
        "`amqproxy config schema` prints this as JSON Schema, `config show` with defaults as a file. In the "
        "names of [variables](../configuration.md#environment-variables), 0 is any place in a list, and NAME any name.",
        "",
    ]
    variables = {key: variable for variable, key in variables_of(Config)}
    for path, name in _sections(definitions, "Config", "", set()):
        struct = definitions[name]
        lines += [f"## {path or 'The top level'}", "", _cell(struct.get("description", "")), ""]
        prefix = path.strip("[]`")
        of_keys = {key: variables.get(f"{prefix}.{key}".lstrip("."), "") for key in struct["properties"]}
        lines += _table(struct, definitions, variables=of_keys)
    shown = set(re.findall(r"`(AMQPROXY_\w+)`", "\n".join(lines)))
    lines += ["## The same keys elsewhere", "", "| key | variable |", "| --- | --- |"]
    lines += [f"| `{key}` | `{variable}` |" for key, variable in variables.items() if variable not in shown]
    return "\n".join(lines)


def rules() -> str:
    """All keys of rules, by action."""
    definitions = schema()["$defs"]
    actions = definitions["Config"]["properties"]["rules"]["items"]["discriminator"]["mapping"]
    structs = {action: definitions[reference.rpartition("/")[2]] for action, reference in actions.items()}
    common = set.intersection(*(set(struct["properties"]) for struct in structs.values()))
    lines = [
        "# Keys of rules",
        "",
        "What they do is in [Rules](../rules.md), with examples. Besides its `action`, every rule has",
        "",
    ]
    lines += _table(next(iter(structs.values())), definitions, only=common - {"action"})
    seen = {"Config"}
    for path, name in _sections(definitions, "Match", "`match`", seen):
        lines += [f"## {path}", "", _text(definitions[name]), "", *_table(definitions[name], definitions)]
    for action, struct in structs.items():
        lines += [f"## {action}", "", _text(struct), "", *_table(struct, definitions, but=common)]
        for key, value in struct["properties"].items():
            for reference, _ in _references(value) if key not in common else ():
                for path, name in _sections(definitions, reference, f"`{key}`", seen):
                    inner = definitions[name]
                    kind = inner["properties"].get("kind", {}).get("enum", [""])[0]
                    lines += [f"### {path}{kind and f' of the kind {kind}'}", "", _text(inner), ""]
                    lines += _table(inner, definitions, but={"kind"})
    return "\n".join(lines)


def json_objects() -> str:
    """The objects that are printed with `--json`, each with its keys."""
    lines = [
        "# JSON objects",
        "",
        "What commands print with `--json`, an object a line. Keys that do not apply are absent.",
    ]
    for path in sorted((ROOT / "docs" / "schemas").glob("*.json")):
        contract = json.loads(path.read_text())
        definitions = contract["$defs"]
        main = contract["$ref"].rpartition("/")[2]
        lines += ["", f"## {path.stem}", "", f"JSON Schema: [{path.name}](../schemas/{path.name})"]
        for name in [main, *(each for each in definitions if each != main)]:
            if "properties" in definitions[name]:
                heading = [] if name == main else [f"### {name}", ""]
                lines += ["", *heading, _text(definitions[name]), "", *_table(definitions[name], definitions)]
    return "\n".join(lines)


def requests() -> str:
    """What may be asked on the control socket, each with its keys."""
    lines = [
        "# Requests on the control socket",
        "",
        "Responses, errors and events are in [The control socket](../control.md).",
    ]
    lines += ["Each request may have an `id`, which its response returns.", ""]
    by_tag = {each.__struct_config__.tag: each for each in get_args(AnyRequest)}
    for tag, struct in sorted(by_tag.items()):
        (reference,), definitions = schema_components([struct])
        own = definitions[reference["$ref"].rpartition("/")[2]]
        lines += [f"## {tag}", "", _text(own), "", *_table(own, definitions, but={"request", "id"})]
    return "\n".join(lines)


def python_names(page: str) -> str:
    """Directives of mkdocstrings for the names that the page about the Python API lists, by the rows of its table."""
    lines = [
        "# Python names",
        "",
        "The names that [the Python API](../python.md) lists as stable, from their signatures and docstrings.",
        "",
    ]
    for subject, names in STABLE.findall(page):
        lines += [f"## {subject[0].upper()}{subject[1:]}", ""]
        for name in re.findall(r"`([\w.]+)`", names):
            lines += [f"::: {name}", ""]
    return "\n".join(lines)


def _table(
    struct: dict[str, Any],
    definitions: dict[str, Any],
    *,
    only: Container[str] | None = None,
    but: Container[str] = (),
    variables: Mapping[str, str] | None = None,
) -> list[str]:
    """The keys of a struct: all, or `only` some, or all `but` some; with their variables in the environment."""
    keys = {
        key: value for key, value in struct["properties"].items() if (only is None or key in only) and key not in but
    }
    if not keys:
        return []
    has_meaning = any("description" in value for value in keys.values())
    if variables:
        has_meaning = True
    meaning = " meaning, and variable |" if variables else " meaning |"
    lines = ["| key | type | default |" + meaning * has_meaning, "| --- | --- | --- |" + " --- |" * has_meaning]
    for key, value in keys.items():
        default = "" if key in struct.get("required", ()) else f"`{_shown(value.get('default'))}`"
        variable = f" `{variables[key]}`" if variables else ""
        meaning = f" {_cell(value.get('description', ''))}{variable} |" if has_meaning else ""
        lines.append(f"| `{key}` | {_kind(value, definitions)} | {default} |{meaning}")
    return [*lines, ""]


def _text(struct: dict[str, Any]) -> str:
    """What its docstring says, with its paragraphs and lists."""
    return inspect.cleandoc(struct.get("description", ""))


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
    if default == "":
        return '""'
    if default in (None, {}, [], ()):
        return "none"
    if isinstance(default, dict | list | tuple):
        return "see there"
    return str(default).lower() if isinstance(default, bool) else str(default)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
