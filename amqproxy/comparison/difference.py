"""How two things differ: field by field, and of bodies, where.

`compare` reports the differences of two captures; what else compares what was recorded with what happened now has
the same ones to report.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from amqproxy.taps.record import encoded, excerpt

MAX_CHANGES = 100
"""Fields of one message, or places in one JSON body, that are named as changed; there may be more."""

MAX_JSON = 65_536
"""Bytes of the largest body that is looked into as JSON."""

MAX_DEPTH = 128
"""Tables within tables that are looked into; a JSON body with more is compared as bytes only."""

EXCERPT = 60
"""Bytes that are shown of a body from where it differs."""


class _Absent:
    """Stands for the value of what is not there: JSON has null for a value that is there."""

    def __repr__(self) -> str:
        return "absent"


_ABSENT = _Absent()


class DifferenceKind(StrEnum):
    """How B differs from A."""

    MISSING = "missing"
    """A has it, B does not."""
    EXTRA = "extra"
    """B has it, A does not."""
    MOVED = "moved"
    """Both have it, at different places among what else there was."""
    CHANGED = "changed"
    """Both have it, with different fields."""

    @property
    def mirrored(self) -> DifferenceKind:
        """The same with A and B exchanged."""
        return _MIRRORED.get(self, self)


_MIRRORED = {DifferenceKind.MISSING: DifferenceKind.EXTRA, DifferenceKind.EXTRA: DifferenceKind.MISSING}


class Change(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A field that differs, named by its path: `arguments.durable`, `properties.headers.x-retry`, `code`.

    `before` is A's value, `after` B's; absent from JSON where that side has no such field. Of the field "body", `at` is
    the first byte that differs; its values are the text, or base64, from there on. A part of a JSON body is named as
    `body.items[3].price`. `at` is -1 where only the digests of bodies are known, and differ.
    """

    field: str
    before: Any = msgspec.UNSET
    after: Any = msgspec.UNSET
    at: int | None = None

    @property
    def mirrored(self) -> Change:
        """The same with A and B exchanged."""
        return msgspec.structs.replace(self, before=self.after, after=self.before)


class Place(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Where something is in its capture: as in the records of `decode`, and its time."""

    ts_ns: int
    stream: int
    connection: str
    channel: int | None = None


class Difference(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="report", tag="difference"):
    """One difference: what it is about, and where that is in A and in B, as far as they have it.

    `type` is as in the records of `decode --messages`: "publish", "request" and so on, or "connection" or "channel" for
    one that only one side has. `what` describes it on one line, as A has it, or else B: with names that the broker made
    up written as `<queue:1.1>`. `changes` are the fields of what has `changed`.
    """

    kind: DifferenceKind
    type: str
    what: str
    method: str | None = None
    a: Place | None = None
    b: Place | None = None
    changes: tuple[Change, ...] = ()

    def to_json(self) -> bytes:
        """One line of JSON, without the line's end."""
        return encoded(self)


def changes(before: Any, after: Any, field: str = "") -> list[Change]:
    """What differs between two values as JSON has them, by the paths of mappings and lists within `field`.

    The values must come from the same kind of thing: `Step.fields`, arguments, properties, parsed bodies. At most
    `MAX_CHANGES`, the first ones.
    """
    found: list[Change] = []
    for each in _changes(before, after, field, 0):
        found.append(each)
        if len(found) == MAX_CHANGES:
            break
    return found


def _changes(before: Any, after: Any, field: str, depth: int) -> Iterator[Change]:
    if depth < MAX_DEPTH:
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            for name in (*before, *(each for each in after if each not in before)):
                path = f"{field}.{name}" if field else str(name)
                yield from _changes(before.get(name, _ABSENT), after.get(name, _ABSENT), path, depth + 1)
            return
        if isinstance(before, list | tuple) and isinstance(after, list | tuple):
            for index in range(max(len(before), len(after))):
                one = before[index] if index < len(before) else _ABSENT
                other = after[index] if index < len(after) else _ABSENT
                yield from _changes(one, other, f"{field}[{index}]", depth + 1)
            return
    if _differ(before, after):
        yield Change(
            field=field,
            before=msgspec.UNSET if before is _ABSENT else before,
            after=msgspec.UNSET if after is _ABSENT else after,
        )


def _differ(before: Any, after: Any) -> bool:
    """True and 1 are two values, and so are 1 and 1.0; one NaN is like another."""
    if type(before) is not type(after):
        return True
    return bool(before != after) and not (before != before and after != after)


def body_changes(before: bytes, after: bytes, *, is_whole: bool = True) -> list[Change]:
    """Where two bodies differ: the first byte, and where both are JSON, the values that do.

    Unless they are whole, they are the beginnings of bodies that are known to differ.
    """
    at = first_difference(before, after)
    if at is None:
        return [] if is_whole else [Change(field="body", at=-1)]
    found = [Change(field="body", before=_from(before, at), after=_from(after, at), at=at)]
    if is_whole and max(len(before), len(after)) <= MAX_JSON:
        one, other = _json(before), _json(after)
        if one is not None and other is not None:
            found += changes(one[0], other[0], "body")[: MAX_CHANGES - 1]
    return found


def first_difference(before: bytes, after: bytes) -> int | None:
    """The place of the first byte in which two bodies differ; None where they are the same."""
    if before == after:
        return None
    low, high = 0, min(len(before), len(after))
    if before[:high] == after[:high]:
        return high
    while high - low > 1:  # halved at C's speed: a loop over bytes would take a second for a large body
        middle = (low + high) // 2
        if before[low:middle] == after[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _from(body: bytes, at: int) -> Any:
    """What a person is shown of a body from a place on; absent where it ends before that."""
    return excerpt(body[at:], EXCERPT) if at < len(body) else msgspec.UNSET


def _json(body: bytes) -> tuple[Any] | None:
    """The value of a body that is a JSON object or array, in a tuple of its own."""
    if body.lstrip()[:1] not in (b"{", b"[") or _depth(body) > MAX_DEPTH:
        return None
    try:
        return (json.loads(body),)
    except (ValueError, RecursionError):
        return None


def _depth(body: bytes) -> int:
    """How many brackets of a JSON text are open at once, at most; brackets in strings count too."""
    depth = most = 0
    for bracket in re.findall(rb"[\[{\]}]", body):
        depth += 1 if bracket in b"[{" else -1
        most = max(most, depth)
    return most
