"""Text templates with command attributes in braces: `{user} published to {exchange}`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from amqproxy.rules.context import CommandContext
from amqproxy.rules.matching.attributes import NAMES, Attribute, AttributeKind, AttributeSource, builtin_value
from amqproxy.rules.verdict import Stage

_PIECES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_OPEN_ENDED = {AttributeKind.TABLE, AttributeKind.ANYTHING}


class TemplateField:
    """A template field: an attribute, and an optional path into its value."""

    __slots__ = ("name", "path")

    def __init__(self, text: str) -> None:
        known = text
        while known not in NAMES and "." in known:
            known = known.rpartition(".")[0]
        name = NAMES.get(known)
        if name is None or (known != text and name.kind not in _OPEN_ENDED):
            raise ValueError(f"`{{{text}}}` is not a known name: see `names`")
        self.name: Attribute = name
        self.path = text[len(known) + 1 :]

    def value(self, context: CommandContext) -> Any:
        """Return the value; `None` if the command has none."""
        found = self.name.value(context)
        return found if not self.path else _inside(found, self.path)

    def text(self, context: CommandContext) -> str:
        return as_text(self.value(context))


def _inside(value: Any, path: str) -> Any:
    """Return the value at `path` in tables and lists; names that contain dots are found too."""
    if isinstance(value, Mapping):
        if path in value:
            return value[path]
        first, _, rest = path.partition(".")
        return _inside(value[first], rest) if rest and first in value else None
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        first, _, rest = path.partition(".")
        if not (first.isascii() and first.isdecimal()) or int(first) >= len(value):
            return None
        return _inside(value[int(first)], rest) if rest else value[int(first)]
    return None


class Template:
    """A text in which `{name}` stands for an attribute of the command; `{{` and `}}` are literal braces.

    Raise `ValueError` for an unknown name. `given` are names with values that are known in advance.
    """

    __slots__ = ("pieces", "text")

    def __init__(self, text: str, given: Mapping[str, str] | None = None) -> None:
        self.text = text
        pieces: list[str | TemplateField] = []
        position = 0
        for found in _PIECES.finditer(text):
            pieces.append(text[position : found.start()])
            position = found.end()
            token, inner = found[0], found[1]
            if token in ("{{", "}}"):
                pieces.append(token[0])
            elif inner is None:
                raise ValueError(f"unmatched brace in `{text}`: write a literal brace twice")
            elif given is not None and inner in given:
                pieces.append(given[inner])
            else:
                pieces.append(TemplateField(inner))
        pieces.append(text[position:])
        self.pieces = tuple(_joined(pieces))

    @property
    def places(self) -> list[TemplateField]:
        return [piece for piece in self.pieces if isinstance(piece, TemplateField)]

    @property
    def literal(self) -> str:
        """Literal parts of the template."""
        return "".join([piece for piece in self.pieces if isinstance(piece, str)])

    @property
    def needs(self) -> Stage:
        """Part of a command that must be received to fill the template."""
        return max([place.name.stage for place in self.places], default=Stage.METHOD)

    @property
    def is_constant(self) -> bool:
        """Whether the result is equal for all commands with equal methods."""
        return all(place.name.source in (AttributeSource.CLIENT, AttributeSource.METHOD) for place in self.places)

    @property
    def is_of_client(self) -> bool:
        """Whether the result is equal for all commands of a session."""
        return all(place.name.source is AttributeSource.CLIENT for place in self.places)

    def fill(self, context: CommandContext) -> str:
        """Return the filled text; missing values are empty."""
        return "".join([piece if isinstance(piece, str) else piece.text(context) for piece in self.pieces])

    def value(self, context: CommandContext) -> Any:
        """Return the filled text, or the value itself, possibly `None`, if the template is a single field."""
        if len(self.pieces) == 1 and isinstance(self.pieces[0], TemplateField):
            return self.pieces[0].value(context)
        return self.fill(context)


def _joined(pieces: list[str | TemplateField]) -> list[str | TemplateField]:
    """Return the pieces with adjacent texts merged and empty ones removed."""
    joined: list[str | TemplateField] = []
    for piece in pieces:
        if isinstance(piece, str) and joined and isinstance(joined[-1], str):
            joined[-1] += piece
        elif piece != "":
            joined.append(piece)
    return joined


def as_text(value: Any) -> str:
    """Format a value as a person would write it."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "surrogateescape")
    if isinstance(value, (Mapping, Sequence)):
        return _json(builtin_value(value)).decode()
    return str(value)


_json = msgspec.json.Encoder(enc_hook=str).encode
