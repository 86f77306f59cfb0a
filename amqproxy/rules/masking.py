"""Values that are not to be seen, covered where they stand."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
import msgspec.structs

from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Field, Table
from amqproxy.rules.edit import PROPERTIES
from amqproxy.rules.pattern import Predicate

_decode = msgspec.json.Decoder(float_hook=Decimal).decode
_encode = msgspec.json.Encoder(decimal_format="number").encode

MAX_MASK = 32
"""Octets of a mask: nothing that is masked becomes too long for its place."""


def masked_table(table: Table, is_secret: Predicate, mask: str) -> Table:
    """The table with the mask in place of secret entries, whatever their types; the very same, if it has none.

    Tables within it are searched too.
    """
    fields = [_masked_field(field, is_secret, mask) for field in table.fields]
    return table if tuple(fields) == table.fields else Table(fields)


def _masked_field(field: Field, is_secret: Predicate, mask: str) -> Field:
    if is_secret(field.name):
        return Field(field.name, "S", mask)
    if isinstance(field.value, Table):
        return field._replace(value=masked_table(field.value, is_secret, mask))
    return field


def masked_properties(properties: Properties, is_secret: Predicate, mask: str) -> Properties:
    """The properties with the mask in place of secret ones; numbers, which cannot show it, are left out."""
    changes = {
        name: None if PROPERTIES[name] in "oq" else mask
        for name in PROPERTIES
        if is_secret(name) and getattr(properties, name) is not None
    }
    return msgspec.structs.replace(properties, **changes) if changes else properties


def pointer(text: str) -> tuple[str, ...]:
    """The steps of a JSON pointer (RFC 6901), in which `*` is every entry; `ValueError` when it is none."""
    if text and not text.startswith("/"):
        raise ValueError(f"`{text}` is no JSON pointer: it must begin with /")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:])


def masked_json(body: bytes, pointers: Sequence[tuple[str, ...]], mask: str) -> bytes:
    """The body with the mask in place of what the pointers lead to; all of it masked, where it is no JSON.

    The very same octets, where there is nothing to mask.
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
    return _encode(document) if found else body


def _mask(value: Any, steps: Sequence[str], mask: str) -> bool:
    """Put the mask where the steps lead to, in place; was there anything?"""
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
