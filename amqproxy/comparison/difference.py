"""Differences of two values, field by field, and of two bodies, by position.

`compare` reports the differences of two captures; replays report those between a recording and live traffic in the
same form.
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
"""Upper limit of the reported changes of one message, or within one JSON body."""

MAX_JSON = 65_536
"""Size in bytes of the largest body that is compared as JSON."""

MAX_DEPTH = 128
"""Nesting depth that is compared; a JSON body with a greater depth is compared as bytes only."""

EXCERPT = 60
"""Bytes that are shown of a body from the first difference."""


class _Absent:
    """The value of an absent field, distinct from JSON's null."""

    def __repr__(self) -> str:
        return "absent"


_ABSENT = _Absent()


class DifferenceKind(StrEnum):
    """The way in which B differs from A."""

    MISSING = "missing"
    """A has it, B does not."""
    EXTRA = "extra"
    """B has it, A does not."""
    MOVED = "moved"
    """Both have it, at different places in their sequences."""
    CHANGED = "changed"
    """Both have it, with different fields."""

    @property
    def mirrored(self) -> DifferenceKind:
        """The kind with A and B exchanged."""
        return _MIRRORED.get(self, self)


_MIRRORED = {DifferenceKind.MISSING: DifferenceKind.EXTRA, DifferenceKind.EXTRA: DifferenceKind.MISSING}


class Change(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A differing field, named by its path: `arguments.durable`, `properties.headers.x-retry`, `code`.

    `before` is A's value, `after` B's; absent from JSON where that side has no such field. Of the field "body", `at` is
    the first byte that differs; its values are the text, or base64, from that byte. A part of a JSON body is named as
    `body.items[3].price`. `at` is -1 where only the digests of bodies are known, and differ.
    """

    field: str
    before: Any = msgspec.UNSET
    after: Any = msgspec.UNSET
    at: int | None = None

    @property
    def mirrored(self) -> Change:
        """The change with A and B exchanged."""
        return msgspec.structs.replace(self, before=self.after, after=self.before)


class Place(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Time and place of something in its capture, as in the records of `decode`."""

    ts_ns: int
    stream: int
    connection: str
    channel: int | None = None


class Difference(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="report", tag="difference"):
    """One difference: its subject, and its place in A and in B, as far as they have it.

    `type` is as in the records of `decode --messages`: "publish", "request" and so on, or "connection" or "channel" for
    one that only one side has. `what` describes the subject on one line, as A has it, or else B: names that the broker
    generated are written as `<queue:1.1>`. `changes` are the differing fields of one that is `changed`.
    """

    kind: DifferenceKind
    type: str
    what: str
    method: str | None = None
    a: Place | None = None
    b: Place | None = None
    changes: tuple[Change, ...] = ()

    def to_json(self) -> bytes:
        """Return one line of JSON, without the line's end."""
        return encoded(self)


class SentOtherwise(Difference, frozen=True, omit_defaults=True, kw_only=True, tag_field="report", tag="sent"):
    """A recorded command that a replay sent with other fields, such as a name that the live broker generated."""


def changes(before: Any, after: Any, field: str = "") -> list[Change]:
    """Return the differences of two JSON values, by the paths of mappings and lists within `field`.

    The values must be of the same kind: `Step.fields`, arguments, properties, parsed bodies. Only the first
    `MAX_CHANGES` are returned.
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
    """Whether two values differ: True, 1 and 1.0 are three values, and one NaN equals another."""
    if type(before) is not type(after):
        return True
    return bool(before != after) and not (before != before and after != after)


def body_changes(before: bytes, after: bytes, *, is_whole: bool = True) -> list[Change]:
    """Return the first differing byte of two bodies, and if both are JSON, the differing values.

    Without `is_whole`, they are the beginnings of bodies that are known to differ.
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
    """Return the place of the first byte in which two bodies differ; None if they are the same."""
    if before == after:
        return None
    low, high = 0, min(len(before), len(after))
    if before[:high] == after[:high]:
        return high
    while high - low > 1:  # bisection compares at C's speed: a loop over bytes would take a second for a large body
        middle = (low + high) // 2
        if before[low:middle] == after[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _from(body: bytes, at: int) -> Any:
    """Return an excerpt of a body from a place on; absent if the body ends before that."""
    return excerpt(body[at:], EXCERPT) if at < len(body) else msgspec.UNSET


def _json(body: bytes) -> tuple[Any] | None:
    """Parse a body that is a JSON object or array; return its value in a tuple, None for any other body."""
    if body.lstrip()[:1] not in (b"{", b"[") or _depth(body) > MAX_DEPTH:
        return None
    try:
        return (json.loads(body),)
    except (ValueError, RecursionError):
        return None


def _depth(body: bytes) -> int:
    """Return the maximum nesting depth of brackets in a JSON text; brackets in strings count too."""
    depth = most = 0
    for bracket in re.findall(rb"[\[{\]}]", body):
        depth += 1 if bracket in b"[{" else -1
        most = max(most, depth)
    return most
