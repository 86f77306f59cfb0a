"""What in a name was generated: by a broker, from a counter, at random; so that one pattern stands for all such names.

    amq.gen-JzTY20BRgKO-HjmUJj0wLg   → the broker's prefix, and what it chose
    reply.8f14e45f-ceea-467f-a0e6-c4a5ad4e2f3b   → "reply.", a UUID
    shard-7   → "shard-", a number

Nothing but the name is looked at. A short number may have been chosen by a person (`orders-v2`), so it is for the
caller to decide, by the names alike that it has seen, whether it was generated: `Part.is_certain` is False then.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache

import msgspec

_UNSAFE = re.compile(r"[^A-Za-z0-9_ .:/@-]")
"""What is escaped in an expression although most of it means only itself."""


class Generated(Enum):
    """How a part of a name was made."""

    SERVER_NAME = "server name"
    """By the broker, for a queue that was declared without a name; or by a library that does likewise."""
    REPLY_ADDRESS = "reply address"
    """By the broker, for direct reply-to."""
    UUID = "uuid"
    HEX = "hex"
    """At least 16 hexadecimal digits, some of each kind."""
    NUMBER = "number"


_EXPRESSIONS = {
    Generated.SERVER_NAME: "[A-Za-z0-9_-]*",
    Generated.REPLY_ADDRESS: ".*",
    Generated.UUID: "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}",
    Generated.HEX: "[0-9A-Fa-f]{16,}",
    Generated.NUMBER: "[0-9]+",
}
"""What each may be, in RE2's syntax."""

CERTAIN_DIGITS = 6
"""A number of so many digits was not chosen by a person: it is a date, a time, an identifier."""

_GENERATED = re.compile(
    r"(?P<server>(?<![^.])(?:amq|spring)\.gen-)(?:[A-Za-z0-9_-]{8,})?$"
    r"|(?P<reply>^amq\.rabbitmq\.reply-to\.).*$"
    r"|(?P<uuid>(?:(?<![0-9A-Fa-f])|(?<=^TempQueue))[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}(?![0-9A-Fa-f]))"
    r"|(?P<hex>(?<![0-9A-Za-z])(?=[A-Fa-f]*[0-9])(?=[0-9]*[A-Fa-f])[0-9A-Fa-f]{16,}(?![0-9A-Za-z]))"
    r"|(?P<number>[0-9]+)",
    re.DOTALL,
)


class Part(msgspec.Struct, frozen=True):
    """A piece of a name: its text, and how it was generated, or None where it is literal."""

    text: str
    generated: Generated | None = None

    @property
    def is_certain(self) -> bool:
        """Was it generated for sure, and not perhaps chosen by a person?"""
        return self.generated is not Generated.NUMBER or len(self.text) >= CERTAIN_DIGITS


_KINDS = {
    "server": Generated.SERVER_NAME,
    "reply": Generated.REPLY_ADDRESS,
    "uuid": Generated.UUID,
    "hex": Generated.HEX,
    "number": Generated.NUMBER,
}


@lru_cache(maxsize=8192)
def parts_of(name: str) -> tuple[Part, ...]:
    """The pieces of a name, in order; joined, their texts are the name."""
    parts: list[Part] = []
    at = 0
    for found in _GENERATED.finditer(name):
        kind = found.lastgroup or ""
        prefix = found[kind] if kind in ("server", "reply") else ""
        literal = name[at : found.start()] + prefix
        if literal:
            parts.append(Part(literal))
        parts.append(Part(found[0][len(prefix) :], _KINDS[kind]))
        at = found.end()
    if at < len(name) or not name:
        parts.append(Part(name[at:]))
    return tuple(parts)


Shape = tuple[str | Generated, ...]
"""A name without what was generated in it: literal texts, and how what stands between them was made."""


def shape_of(name: str, *, certain: bool) -> Shape:
    """The shape of a name; unless `certain`, short numbers count as generated, too."""
    shape: list[str | Generated] = []
    for part in parts_of(name):
        if part.generated is not None and (not certain or part.is_certain):
            shape.append(part.generated)
        elif shape and isinstance(last := shape[-1], str):
            shape[-1] = last + part.text
        else:
            shape.append(part.text)
    return tuple(shape)


def pattern_of(shape: Shape) -> str:
    """The pattern, as `match` and access lists take it, of all names of a shape; of one name, where it has no gap."""
    match shape:
        case (str(name),):
            return exact_pattern(name)
        case (str(start), Generated.SERVER_NAME | Generated.REPLY_ADDRESS) if exact_pattern(start) == start:
            return f"{start}*"
    return f"regex:{expression_of(shape)}"


def expression_of(shape: Shape) -> str:
    """The regular expression that all names of a shape match, and no others."""
    return "".join([_EXPRESSIONS[each] if isinstance(each, Generated) else escaped(each) for each in shape])


def exact_pattern(name: str) -> str:
    """The pattern of one name, in which no character means anything else than itself."""
    if any(not each.isprintable() or each in "\\\"'" for each in name):
        return f"regex:{escaped(name)}"
    is_plain = not name.startswith(("!", "is:", "regex:", "topic:")) and not {*name} & {*"*?"}
    return name if is_plain else f"is:{name}"


def escaped(text: str) -> str:
    """A text as an expression of RE2 that matches just this. Bytes that are no text match as `sound` shows them."""
    return _UNSAFE.sub(_escape, text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")).replace(".", r"\.")


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if character.isprintable() and character not in "\\\"'":
        return f"\\{character}" if character.isascii() else character
    return f"\\x{{{ord(character):X}}}"
