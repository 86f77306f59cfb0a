"""Masks for secret values, in place."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
import msgspec.structs

from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Array, Field, Table
from amqproxy.rules.matching.patterns import Predicate
from amqproxy.rules.rewriting.edit import PROPERTIES
from amqproxy.rules.rewriting.substitution import Substitution, TooMuchWork

_decode = msgspec.json.Decoder(float_hook=Decimal).decode
_encode = msgspec.json.Encoder(decimal_format="number").encode

MAX_MASK = 32
"""Longest mask in bytes, so that a masked value never exceeds its field."""


def masked_table(table: Table, is_secret: Predicate, mask: str) -> Table:
    """Return the table with secret entries masked, whatever their types, or the same object.

    Nested tables and arrays are searched too.
    """
    fields = [_masked_field(field, is_secret, mask) for field in table.fields]
    return table if tuple(fields) == table.fields else Table(fields)


def _masked_field(field: Field, is_secret: Predicate, mask: str) -> Field:
    if is_secret(field.name):
        return Field(field.name, "S", mask)
    value = _masked_within(field.value, is_secret, mask)
    return field if value is field.value else field._replace(value=value)


def _masked_within(value: Any, is_secret: Predicate, mask: str) -> Any:
    """Return the value with its secret entries masked."""
    if isinstance(value, Table):
        return masked_table(value, is_secret, mask)
    if isinstance(value, Array):
        items = [item._replace(value=_masked_within(item.value, is_secret, mask)) for item in value.items]
        return value if tuple(items) == tuple(value.items) else Array(items)
    return value


def masked_properties(properties: Properties, is_secret: Predicate, mask: str) -> Properties:
    """Return the properties with secret ones masked; numbers, which cannot hold a mask, are removed."""
    changes = {
        name: None if PROPERTIES[name] in "oq" else mask
        for name in PROPERTIES
        if is_secret(name) and getattr(properties, name) is not None
    }
    return msgspec.structs.replace(properties, **changes) if changes else properties


def pointer(text: str) -> tuple[str, ...]:
    """Return the steps of a JSON pointer (RFC 6901), in which `*` is every entry; raise `ValueError` if invalid."""
    if text and not text.startswith("/"):
        raise ValueError(f"`{text}` is not a JSON pointer: it must begin with /")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:])


def masked_json(body: bytes, pointers: Sequence[tuple[str, ...]], mask: str) -> bytes:
    """Return the body with the values at the pointers masked; a body that is not JSON is masked whole.

    Return the same bytes if there is nothing to mask.
    """
    try:
        document = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return mask.encode()
    found = False
    for steps in pointers:
        if not steps:
            return _encode(mask)
        found |= _mask(document, steps, mask)
    return _encode(document) if found or _has_twins(body, pointers) else body


def _has_twins(body: bytes, pointers: Sequence[tuple[str, ...]]) -> bool:
    """Whether a secret may be under a duplicate member name, of which the decoded document has only the last."""
    if not any(_may_hold(body, steps) for steps in pointers):
        return False
    twins = False

    def noted(pairs: list[tuple[str, Any]]) -> None:
        nonlocal twins
        twins = twins or len(pairs) != len({name for name, _ in pairs})

    try:
        json.loads(body, object_pairs_hook=noted)
    except (ValueError, RecursionError):
        return True  # the other parser accepted it, and its result is shown
    return twins


def _may_hold(body: bytes, steps: Sequence[str]) -> bool:
    """Whether the last name of the path may be in the body; a body with escapes may contain any name."""
    return steps[-1] == "*" or b"\\" in body or steps[-1].encode() in body


_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_PAIR = re.compile("([\ud800-\udbff])([\udc00-\udfff])")
_LONE = re.compile("[\ud800-\udfff]")


def masked_text(text: str, expressions: Sequence[Any], mask: str) -> str:
    """Return the text with matches masked, including those written with JSON escapes."""
    masked = _substituted(text, expressions, mask)
    if "\\" not in masked:
        return masked
    readable = unescaped(masked)
    found = readable if readable == masked else _substituted(readable, expressions, mask)
    return masked if found == readable else found


def _substituted(text: str, expressions: Sequence[Any], mask: str) -> str:
    """Return the text with matches masked; the mask alone if the work exceeds the limit."""
    found = text.encode()
    for expression in expressions:
        try:
            found = Substitution(expression, mask.replace("\\", "\\\\")).applied(found)
        except TooMuchWork:
            return mask
    return found.decode()


def unescaped(text: str) -> str:
    r"""Return equivalent JSON without unnecessary escapes: `\u0041` and `\/`."""
    if "\\u" not in text and "\\/" not in text:
        return text
    return _LONE.sub("\ufffd", _PAIR.sub(_joined, _ESCAPE.sub(_plain_character, text)))


def _plain_character(escape: re.Match[str]) -> str:
    if escape[1] is None:
        return "/" if escape[2] == "/" else escape[0]
    character = chr(int(escape[1], 16))
    if character in '"\\':
        return f"\\{character}"
    return escape[0] if character < " " else character


def _joined(pair: re.Match[str]) -> str:
    return (pair[1] + pair[2]).encode("utf-16", "surrogatepass").decode("utf-16")


def _mask(value: Any, steps: Sequence[str], mask: str) -> bool:
    """Mask the values at the path in place; return whether there were any."""
    step, *rest = steps
    keys: list[Any]
    if isinstance(value, dict):
        keys = list(value) if step == "*" else [step] if step in value else []
    elif isinstance(value, list):
        if step == "*":
            keys = list(range(len(value)))
        else:
            is_place = step.isascii() and step.isdecimal() and int(step) < len(value)
            keys = [int(step)] if is_place else []
    else:
        return False
    found = False
    for key in keys:
        if rest:
            found |= _mask(value[key], rest, mask)
        else:
            value[key] = mask
            found = True
    return found
