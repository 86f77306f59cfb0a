"""Config documents: the plain values of TOML, YAML or JSON text, bounded before anything is built."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import yaml

MAX_DEPTH = 64
"""Maximum nesting depth of tables and lists. A config needs about ten."""

MAX_NODES = 250_000
"""Maximum number of keys, values, tables and lists, including repetitions by YAML aliases: 15,000 rules, 0.25 GiB."""

MAX_DIGITS = 64
"""Maximum length of a number; no key needs more than 20 characters."""

MAX_TAGS = 64
"""Maximum number of YAML %TAG directives, of which no config needs any; libyaml compares them pairwise, in one call."""

_TAG_DIRECTIVE = re.compile(r"(?<![^\n\r\x85\u2028\u2029])%TAG")
_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml, if PyYAML has it, is five times as fast
_NUMBERS = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})
_SHOWN = 40
"""Characters of a wrong value in an error."""

_TOML_PLACE = re.compile(r" \(at line (\d+), column \d+\)$")
_TOML_EVENT = re.compile(
    # An unterminated string takes the rest of the text: searching for its end again at each quote would take quadratic
    # time, in a call that holds the interpreter's lock.
    r'''(?P<skipped>"""(?:\\(?:.|\Z)|[^\\])*?(?:"{3,5}|\Z)|\'\'\'.*?(?:'{3,5}|\Z)
          |"(?:\\[^\n]|[^"\\\n])*"?|'[^'\n]*'?|\#[^\n]*|[A-Za-z_][\w-]*)
      | (?P<opened>[\[{]) | (?P<closed>[\]}]) | (?P<dot>\.) | (?P<value>=) | (?P<end>[,\n])
      | (?P<number>[+-]?\d[\w.+-]*)''',
    re.VERBOSE | re.DOTALL,
)


class DocumentError(ValueError):
    """The reason why a text is not a document, and the line of the error, if known."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.line = line


def loaded_toml(text: str) -> Any:
    """Return the values of a TOML document; raise `DocumentError` if the text is not TOML or exceeds a limit."""
    _check_toml(text)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a date that does not exist is a ValueError
        place = _TOML_PLACE.search(str(error))
        raise DocumentError(str(error), int(place[1]) if place else None) from None


def loaded_yaml(text: str) -> Any:
    """Return the values of a YAML or JSON document; raise `DocumentError` if the text is not YAML or exceeds a
    limit.
    """
    try:
        _check_yaml(text)
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        raise _document_error(error, text) from None


def composed_yaml(text: str) -> yaml.Node | None:
    """Return the nodes of a YAML document, with their lines; raise `DocumentError` as `loaded_yaml` does."""
    try:
        _check_yaml(text)
        node: yaml.Node | None = yaml.compose(text, _Parser)
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        raise _document_error(error, text) from None
    return node


def too_deep(line: int | None = None) -> DocumentError:
    """Return the error for tables and lists nested deeper than `MAX_DEPTH`."""
    return DocumentError(f"more than {MAX_DEPTH} nested tables and lists: a config needs about ten", line)


def _check_toml(text: str) -> None:
    """Check depth and digits before tomllib, which takes quadratic time in the parts of a dotted key."""
    levels = [0]
    dots = count = 0
    for event in _TOML_EVENT.finditer(text):
        kind = event.lastgroup
        if kind == "opened":
            levels.append(levels[-1] + dots + 1)
            dots = 0
            count += 1
        elif kind == "closed":
            if len(levels) > 1:
                levels.pop()
            dots = 0
        elif kind == "dot":
            dots += 1
        elif kind == "value":
            count += 1
        elif kind == "end":
            dots = 0
            count += event[0] == ","
        elif kind == "number":
            if len(event[0]) > MAX_DIGITS:
                raise _too_long(event[0], _line(text, event.start()))
            dots += event[0].count(".")  # of a key, such as 1.2.3
        if levels[-1] + dots > MAX_DEPTH:
            raise too_deep(_line(text, event.start()))
        if count > MAX_NODES:
            raise _too_many(_line(text, event.start()))


def _check_yaml(text: str) -> None:
    """Check depth, digits and nodes by the parser's events; an alias counts as much as its value."""
    for number, directive in enumerate(_TAG_DIRECTIVE.finditer(text), 1):
        if number > MAX_TAGS:
            raise DocumentError(f"more than {MAX_TAGS} %TAG directives: remove them", _line(text, directive.start()))
    sizes: dict[str, int] = {}
    opened: list[tuple[str | None, int]] = []
    count = 0
    for event in yaml.parse(text, _Parser):
        line = 1 if event.start_mark is None else event.start_mark.line + 1
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            if anchor is not None:
                sizes[anchor] = count - before
        elif isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in opened):
                raise DocumentError(
                    f"the alias *{event.anchor} is inside the value that it repeats: write the value out", line
                )
            count += sizes.get(event.anchor or "", 1)
        elif isinstance(event, yaml.NodeEvent):
            if isinstance(event, yaml.CollectionStartEvent):
                opened.append((event.anchor, count))
                if len(opened) > MAX_DEPTH:
                    raise too_deep(line)
            elif event.anchor is not None:
                sizes[event.anchor] = 1
            count += 1
        if count > MAX_NODES:
            raise _too_many(line)


def _too_many(line: int) -> DocumentError:
    return DocumentError(f"more than {MAX_NODES} values, with those that aliases repeat: write fewer", line)


def _too_long(number: str, line: int) -> DocumentError:
    return DocumentError(f"a number of {len(number)} characters, {_shown(number)}: {MAX_DIGITS} is the most", line)


def _shown(value: str) -> str:
    return repr(value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…")


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _document_error(error: Exception, text: str) -> DocumentError:
    """Return PyYAML's error as one line of text."""
    if isinstance(error, yaml.reader.ReaderError):
        return DocumentError(error.reason, _line(text, error.position))
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        reason = ", ".join([part for part in (error.problem, error.context) if part])
        # libyaml places an error about the end of the text on the line after it.
        return DocumentError(reason, min(mark.line, text.rstrip("\n").count("\n")) + 1 if mark else None)
    return DocumentError(str(error))


class _Loader(_Parser):  # type: ignore[misc]
    """Loader that refuses duplicate keys, and values that Python cannot represent."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if not isinstance(node, yaml.ScalarNode):
            return super().construct_object(node, deep)
        line = node.start_mark.line + 1
        if node.tag in _NUMBERS and len(node.value) > MAX_DIGITS:
            raise _too_long(node.value, line)
        try:
            return super().construct_object(node, deep)
        except (ArithmeticError, AttributeError, LookupError, ValueError):  # raised by PyYAML for `!!bool x`
            kind = node.tag.rpartition(":")[2]
            raise DocumentError(f"{_shown(node.value)} is not a valid {kind}: quote it if it is text", line) from None

    def construct_scalar(self, node: yaml.ScalarNode) -> Any:
        """Return the text of a scalar; YAML 1.1 would take that of a mapping's key `=`, whose length is unchecked."""
        return yaml.constructor.BaseConstructor.construct_scalar(self, node)

    def construct_document(self, node: yaml.Node) -> Any:
        _check_keys(node)
        return super().construct_document(node)


def _check_keys(document: yaml.Node) -> None:
    """Refuse duplicate keys in a mapping, before construction, since PyYAML merges `<<` into the nodes."""
    nodes = [document]
    known = {id(document)}
    for node in nodes:
        parts: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            seen = set()
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                    if key.value in seen:
                        raise DocumentError(
                            f"the key {_shown(key.value)} is here a second time: remove one", key.start_mark.line + 1
                        )
                    seen.add(key.value)
                parts += key, value
        elif isinstance(node, yaml.SequenceNode):
            parts = node.value
        for part in parts:
            if id(part) not in known:
                known.add(id(part))
                nodes.append(part)
