"""Selected fields of records, as lines of columns or as smaller objects: `--fields`."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any, TypeAlias, cast, get_type_hints

import msgspec
from msgspec import UNSET

from amqproxy.amqp091.methods import BY_INDEX
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.rules.suggestions import did_you_mean
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.record import Record, encoded

AnyRecord: TypeAlias = Record | MessageRecord | Finding

Render: TypeAlias = Callable[[bytes], list[str]]
"""Renders lines of JSON as lines of output."""

TIME = "time"
"""A column absent from the JSON contracts: `ts_ns` as an ISO 8601 date and time in UTC."""

_OPENED = ("virtual_host", "mechanism", "user", "channel_max", "frame_max", "heartbeat")
"""Arguments in the record of an opened connection, besides the two tables of properties."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Columns:
    """Columns selected by `names`: dotted keys of the JSON contracts of these `kinds` of records.

    `ValueError`, with a suggestion, for a name that no such record can have.
    """

    def __init__(self, names: Sequence[str], kinds: Iterable[type[AnyRecord]]) -> None:
        known = _known_names(tuple(kinds))
        for name in names:
            _check(name, known)
        self.names = tuple(names)
        self._row = _RowType([_path(name) for name in names])
        self._times = [place for place, name in enumerate(names) if name == TIME]
        self._decode = self._row.decoder.decode_lines

    def values(self, record: AnyRecord) -> list[Any]:
        """Return the columns of a record; None for those it lacks."""
        (row,) = self.rows(record.to_json())
        return [None if value is UNSET else value for value in row]

    def rows(self, lines: bytes) -> Iterator[list[Any]]:
        """Yield the columns of the records in lines of JSON; UNSET for those a record lacks."""
        get, deeper, times = self._row.get, self._row.deeper, self._times
        for row in self._decode(lines):
            values = list(get(row))
            for place, path in deeper:
                values[place] = _resolved(values[place], path)[1]
            for place in times:
                values[place] = iso_time(values[place])
            yield values

    def objects(self, lines: bytes) -> Iterator[dict[str, Any]]:
        """Yield the objects in lines of JSON, reduced to these columns at their original nesting."""
        get, deeper = self._row.get, dict(self._row.deeper)
        for row in self._decode(lines):
            smaller: dict[str, Any] = {}
            for place, (keys, value) in enumerate(zip(self._row.keys, get(row), strict=True)):
                if place in self._times:
                    keys, value = (TIME,), iso_time(value)
                elif place in deeper:
                    parts, value = _resolved(value, deeper[place])
                    keys += parts
                if value is not UNSET:
                    _put(smaller, keys, value)
            yield smaller


class _RowType:
    """Decoder of the selected parts of a line of JSON.

    `get` returns the values at `keys`; those listed in `deeper`, by place, still have to be `_resolved` along a path.
    """

    def __init__(self, paths: Sequence[tuple[str, str, str]]) -> None:
        tops: dict[str, dict[str, str]] = {}
        whole = {top for top, second, _ in paths if not second}
        for top, second, _ in paths:
            parts = tops.setdefault(top, {})
            if second and top not in whole:
                parts.setdefault(second, f"p{len(parts)}")
        attributes = {top: f"t{place}" for place, top in enumerate(tops)}
        fields: list[tuple[str, Any, Any]] = []
        for top, parts in tops.items():
            kind: Any = Any
            default: Any = UNSET
            if parts:
                kind = _struct(parts, [(attribute, Any, UNSET) for attribute in parts.values()])
                default = msgspec.field(default_factory=kind)
            fields.append((attributes[top], kind, default))
        self.decoder = msgspec.json.Decoder(_struct(attributes, fields))
        getters: list[str] = []
        self.keys: list[tuple[str, ...]] = []
        self.deeper: list[tuple[int, str]] = []
        for place, (top, second, path) in enumerate(paths):
            if second and top not in whole:
                self.keys.append((top, second))
                getters.append(f"{attributes[top]}.{tops[top][second]}")
            else:
                self.keys.append((top,))
                getters.append(attributes[top])
                path = ".".join(part for part in (second, path) if part)
            if path:
                self.deeper.append((place, path))
        get: Callable[[Any], Any] = attrgetter(*getters)
        self.get: Callable[[Any], Sequence[Any]] = get if len(getters) > 1 else lambda row: (get(row),)


def _struct(names: Mapping[str, str], fields: Sequence[tuple[str, Any, Any]]) -> type[msgspec.Struct]:
    """Define a struct whose attributes stand for JSON keys."""
    keys = {attribute: key for key, attribute in names.items()}
    return msgspec.defstruct("Row", fields, rename=keys, gc=False)


def _path(name: str) -> tuple[str, str, str]:
    """Split a name into its key, its second key if the first has known parts, and the rest."""
    if name == TIME:
        return ("ts_ns", "", "")
    top, _, rest = name.partition(".")
    second, _, deeper = rest.partition(".")
    return (top, second, deeper)


def _put(into: dict[str, Any], keys: tuple[str, ...], value: Any) -> None:
    for key in keys[:-1]:
        into = into.setdefault(key, {})
    before = into.get(keys[-1])
    if isinstance(before, dict) and isinstance(value, dict):  # a part of it was named before the whole
        value = {**before, **value}
    into[keys[-1]] = value


def json_lines(columns: Columns) -> Render:
    """Return a renderer of lines of JSON as smaller objects."""
    return lambda lines: [encoded(smaller).decode() for smaller in columns.objects(lines)]


def separated_lines(columns: Columns, separator: str = "\t", *, is_for_spreadsheets: bool = False) -> Render:
    """Return a renderer of JSON lines as lines of columns, escaped by `escaped` for tabs, otherwise quoted as in CSV.

    If it `is_for_spreadsheets`, texts that a spreadsheet would evaluate as formulas get a leading quote.
    """
    if separator == "\t":
        return lambda lines: ["\t".join(map(_escaped_cell, values)) for values in columns.rows(lines)]
    joined = _quoted_by(separator)
    text_of = _inert_cell if is_for_spreadsheets else cell
    return lambda lines: [joined(map(text_of, values)) for values in columns.rows(lines)]


def header_line(columns: Columns, separator: str = "\t") -> str:
    """Return the column names as a line."""
    return "\t".join(map(escaped, columns.names)) if separator == "\t" else _quoted_by(separator)(columns.names)


def cell(value: Any) -> str:
    """Return the text of a value: empty for UNSET, JSON for a value that is not a string."""
    if value is UNSET:
        return ""
    return value if isinstance(value, str) else encoded(value).decode()


def _escaped_cell(value: Any) -> str:
    if type(value) is int:
        return str(value)
    return escaped(cell(value))


def _inert_cell(value: Any) -> str:
    """Return the text of a value, with a leading quote if a spreadsheet would evaluate it."""
    return cell(inert(value))


def inert(value: Any) -> Any:
    """Return a value, with a leading quote if it is a text that a spreadsheet would evaluate, as OWASP advises."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULAS) else value


_FORMULAS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of a formula, including the full-width forms of Japanese keyboards."""


def escaped(text: str) -> str:
    """Escape with backslashes the characters that would break a line of columns or affect a terminal."""
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(_ESCAPES.get(each) or (each if each.isprintable() else _code(each)) for each in text)


def _quoted_by(separator: str) -> Callable[[Iterable[str]], str]:
    def joined(cells: Iterable[str]) -> str:
        line = io.StringIO()
        csv.writer(line, delimiter=separator, lineterminator="").writerow(
            [each if each.isprintable() else escaped(each) for each in cells]
        )
        return line.getvalue()

    return joined


_ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\\": "\\\\"}


def _code(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65_536 else f"\\U{number:08x}"


def iso_time(ts_ns: int) -> str:
    """Return a time as in 2026-01-31T10:59:05.493359000Z; seconds since 1970 if it is out of the calendar's range."""
    seconds, rest = divmod(ts_ns, 1_000_000_000)
    date = _date(seconds)
    return f"{date}.{rest:09d}Z" if date else f"{seconds}.{rest:09d}"


@lru_cache(maxsize=16)
def _date(seconds: int) -> str:
    try:
        return f"{_EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}"
    except OverflowError:
        return ""


def _resolved(value: Any, path: str) -> tuple[tuple[str, ...], Any]:
    """Return the keys by which a path leads into an object, and the value there; keys may contain dots themselves."""
    if not isinstance(value, dict):
        return (), UNSET
    if path in value:
        return (path,), value[path]
    at = path.find(".")
    while at >= 0:
        if path[:at] in value:
            keys, found = _resolved(value[path[:at]], path[at + 1 :])
            if found is not UNSET:
                return (path[:at], *keys), found
        at = path.find(".", at + 1)
    return (), UNSET


# --- known names


@cache
def _known_names(kinds: tuple[type[AnyRecord], ...]) -> dict[str, bool]:
    """Return the names of all columns known in advance, and whether each has parts whose names are not."""
    known = {TIME: False}
    for kind in kinds:
        for top in [each.encode_name for each in msgspec.structs.fields(kind)]:
            parts = _parts_of(top)
            known[top] = False
            known |= {f"{top}.{name}": is_table for name, is_table in parts.items()}
    return known


def _parts_of(top: str) -> dict[str, bool]:
    if top == "properties":
        return {name: name == "headers" for name in Properties.__struct_fields__}
    if top == "decoded":
        return {"form": False, "value": True}
    if top not in ("arguments", "reply_arguments"):
        return {}
    parts = {"body_size": False, **dict.fromkeys(_OPENED, False)}
    for method in BY_INDEX:
        hints = get_type_hints(method)
        for name, field in method.spoken:
            parts[name] = parts.get(name, False) or hints[field] is Table
    return parts


def _check(name: str, known: dict[str, bool]) -> None:
    if name in known:
        return
    top, _, rest = name.partition(".")
    second, _, deeper = rest.partition(".")
    if deeper and known.get(f"{top}.{second}"):
        return
    if deeper and f"{top}.{second}" in known:
        raise ValueError(f"there is no field {name}: {top}.{second} has no parts")
    ends = [each for each in known if each.endswith(f".{name}") or name.startswith(f"{each.partition('.')[2]}.")]
    if ends and "." in ends[0]:
        meant = min(ends, key=len)
        inner = meant.partition(".")[2]
        raise ValueError(f"there is no field {name}: did you mean `{meant}{name[len(inner) :]}`?")
    raise ValueError(f"there is no field {name}" + (did_you_mean(name, known) or _listed(known)))


def _listed(known: dict[str, bool]) -> str:
    return ": there are " + ", ".join(each for each in known if "." not in each)


def kinds_shown(*, messages: bool, findings: bool) -> tuple[type[AnyRecord], ...]:
    """Return the kinds of records that these options print."""
    kinds = (MessageRecord,) * messages + (Finding,) * findings
    return cast(tuple[type[AnyRecord], ...], kinds or (Record,))
