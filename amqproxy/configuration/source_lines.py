"""Lines of keys in a config file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from amqproxy.configuration.config_document import DocumentError, composed_yaml

Path = tuple[str | int, ...]

_STEP = re.compile(r"\.?([^.\[\]:]+)|\[(\d+)\]")
_HEADER = re.compile(r"\s*(\[\[?)(.+?)\]\]?\s*(#.*)?$")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=(.*)""")


def path_of(place: str) -> Path:
    """Return the steps of `rules[3].match.exchange`: "rules", 3, "match", "exchange"."""
    return tuple(int(number) if number else name for name, number in _STEP.findall(place))


def line_of(text: str, path: Path, *, is_toml: bool) -> int | None:
    """Return the line, from 1 on, of the key at `path`, or of the nearest enclosing one; `None` if there is none."""
    return line_at(path, lines_of(text, is_toml=is_toml))


def lines_of(text: str, *, is_toml: bool) -> dict[Path, int]:
    """Return the lines, from 1 on, of keys by their paths."""
    return dict(_of_toml(text)) if is_toml else dict(_of_yaml(text))


def line_at(path: Path, lines: Mapping[Path, int]) -> int | None:
    """Return the line of the key at `path`, or of the nearest enclosing one, among `lines`."""
    return next((lines[path[:size]] for size in range(len(path), 0, -1) if path[:size] in lines), None)


def with_comments(text: str, comments: Mapping[Path, str]) -> str:
    """Return YAML with comments behind the values at these paths; values of several lines get none."""
    root = composed_yaml(text) if comments else None
    if root is None:
        return text
    lines = text.split("\n")
    for path, node in _scalars(root, ()):
        if path in comments and node.start_mark.line == node.end_mark.line:
            lines[node.start_mark.line] += f"  # {comments[path]}"
    return "\n".join(lines)


def _scalars(node: yaml.Node, path: Path) -> Iterator[tuple[Path, yaml.Node]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _scalars(value, (*path, str(key.value)))
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield from _scalars(value, (*path, number))
    if not node.value or isinstance(node, yaml.ScalarNode):
        yield path, node


def _of_yaml(text: str) -> Iterator[tuple[Path, int]]:
    try:
        root = composed_yaml(text)
    except DocumentError:
        return
    if root is not None:
        yield from _of_node(root, ())


def _of_node(node: yaml.Node, path: Path) -> Iterator[tuple[Path, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*path, str(key.value))
            yield inner, key.start_mark.line + 1
            yield from _of_node(value, inner)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield (*path, number), value.start_mark.line + 1
            yield from _of_node(value, (*path, number))


def _of_toml(text: str) -> Iterator[tuple[Path, int]]:
    """Yield the lines of headers and keys. Keys in an inline table or list have its line."""
    table: Path = ()
    counts: dict[Path, int] = {}
    ending = ""
    for number, line in enumerate(text.split("\n"), 1):
        if ending:
            ending = "" if ending in line else ending
            continue
        header, key = _HEADER.match(line), _KEY.match(line)
        if key is not None:
            path = table
            for step in _steps(key[1]):
                path = (*path, step)
                yield path, number
            ending = next((quotes for quotes in ('"""', "'''") if key[2].count(quotes) == 1), "")
        elif header is not None:
            table = _entered(_steps(header[2]), counts, is_new=header[1] == "[[")
            yield table, number


def _entered(steps: Path, counts: dict[Path, int], *, is_new: bool) -> Path:
    """Return the path of a header's table; for an array of tables, of the last one."""
    path: Path = ()
    for place, step in enumerate(steps):
        path = (*path, step)
        if is_new and place == len(steps) - 1:
            counts[path] = counts.get(path, 0) + 1
        if path in counts:
            path = (*path, counts[path] - 1)
    return path


def _steps(key: str) -> Path:
    """Return the names of a dotted key."""
    try:
        found: Any = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        return (key.strip(),)
    steps: list[str | int] = []
    while isinstance(found, dict):
        [(step, found)] = found.items()
        steps.append(step)
    return tuple(steps)
