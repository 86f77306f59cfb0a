"""Comparison of the fields of one frame as decoded by amqproxy and by tshark, with known faults of tshark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import BODY, HEADER, METHOD, Frame
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.wire import Array, Table
from amqproxy.taps.record import MASK
from amqproxy.tshark import known_faults
from amqproxy.tshark.dissected_frame import DissectedFrame, Shown

TRUNCATED = " [truncated]"

_TYPE_NAMES = {
    "t": "boolean",
    "b": "byte",
    "B": "unsigned byte",
    "s": "short int",
    "u": "short uint",
    "I": "integer",
    "i": "unsigned integer",
    "l": "long int",
    "f": "float",
    "d": "double",
    "D": "decimal",
    "S": "string",
    "x": "byte array",
    "T": "timestamp",
    "V": "void",
    "A": "array",
    "F": "field table",
}


class FieldDifference(msgspec.Struct, frozen=True):
    """A field's value as amqproxy and as tshark show it, and the known fault that explains the difference."""

    field: str
    ours: str
    theirs: str
    known: str | None = None


def field_differences(frame: Frame, dissected: DissectedFrame) -> Iterator[FieldDifference]:
    """Yield the fields that tshark shows differently, in a frame of the same kind, channel and size."""
    known = known_faults.CLAMPED if frame.size > known_faults.CLAMPED_BYTES else None
    try:
        if frame.kind == METHOD:
            yield from _method_differences(frame, dissected, known)
        elif frame.kind == HEADER:
            header: ContentHeader = frame.header
            values = {"body-size": header.body_size, **header.properties.present()}
            yield from _differences(values, dissected.fields, known)
        elif frame.kind == BODY and not frame.lost and dissected.payload != frame.payload:
            yield FieldDifference("payload", f"{frame.size} bytes", f"{len(dissected.payload)} other bytes", known)
    except ProtocolError as error:
        yield FieldDifference("", f"{error.code} {error.reply_text}", "no error", known_faults.FRAME_END)


def _method_differences(frame: Frame, dissected: DissectedFrame, known: str | None) -> Iterator[FieldDifference]:
    method = frame.method
    if dissected.method in known_faults.UNNAMED:
        known = known_faults.NO_NAME
    values = method.to_dict()
    shown = {name: each for name, each in dissected.fields.items() if name not in known_faults.ONLY_THEIRS}
    for name in values:
        for other in known_faults.THEIR_NAMES.get(name, ()):
            if other in shown:
                shown[name] = shown.pop(other)
    for each in _differences(values, shown, known):
        yield msgspec.structs.replace(each, ours=MASK, theirs=MASK) if each.field == method.secret else each


def _differences(ours: Mapping[str, Any], theirs: Mapping[str, Shown], known: str | None) -> Iterator[FieldDifference]:
    for name, value in ours.items():
        shown = theirs.get(name)
        if isinstance(value, Table):
            if shown is not None or value:
                yield from _table_differences(name, value, shown.within if shown else (), known)
        elif shown is None:
            yield FieldDifference(name, repr(value), "nothing", known)
        elif not is_same(value, shown):
            yield FieldDifference(name, repr(value), repr(shown.text), known)
    for other in theirs.keys() - ours.keys():
        yield FieldDifference(other, "nothing", repr(theirs[other].text), known)


def is_same(value: Any, shown: Shown) -> bool:
    """Whether a value equals the bytes of the field that tshark shows, which are present except for empty texts."""
    if isinstance(value, bool):
        return shown.text in (("1", "True", "true") if value else ("0", "False", "false"))
    if isinstance(value, int):
        return shown.hex != "" and int(shown.hex, 16) == value
    data = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")
    held = bytes.fromhex(shown.hex)
    lengths = [b""] + [len(data).to_bytes(width) for width in (1, 2, 4) if len(data) < 256**width]
    return held in [length + data for length in lengths]


def _table_differences(
    path: str, table: Table | Array, shown: tuple[Shown, ...], known: str | None
) -> Iterator[FieldDifference]:
    entries = (
        [(field.name, field.type, field.value) for field in table.fields]
        if isinstance(table, Table)
        else [(f"[{number}]", item.type, item.value) for number, item in enumerate(table.items)]
    )
    if any(letter in known_faults.UNKNOWN_LETTERS for _, letter, _ in entries):
        known = known or known_faults.UNKNOWN_TYPES
    if len(entries) != len(shown):
        yield FieldDifference(path, f"{len(entries)} entries", f"{len(shown)} entries", known)
        return
    for (name, letter, value), each in zip(entries, shown, strict=True):
        where = f"{path}{name}" if isinstance(table, Array) else f"{path}.{name}"
        if not _is_same_entry(name, letter, value, each):
            yield FieldDifference(where, f"{name} ({_TYPE_NAMES.get(letter, letter)}): {value!r}", each.label, known)
        elif isinstance(value, Table | Array):
            yield from _table_differences(where, value, each.within, known)


def _is_same_entry(name: str, letter: str, value: Any, shown: Shown) -> bool:
    """Whether a table entry equals tshark's text for it, since its bytes are absent; escaped or cut parts match."""
    label = shown.label.removeprefix(TRUNCATED)
    is_cut = label != shown.label
    if not is_plain(name):
        return True
    head = f"{name} ({_TYPE_NAMES.get(letter, '?')})"
    if is_cut and len(label) <= len(head):
        return head.startswith(label)
    if not label.startswith(head):
        return False
    text = label[len(head) :].removeprefix(":").removeprefix(" ")
    if letter in "AF" or is_cut:
        return True
    if letter == "t":
        return text == str(value).lower()
    if letter in "fdD":
        return is_close(float(value), text)
    if letter == "T":
        return int(shown.hex[2:] or "0", 16) == int(value)
    if letter == "x":
        return bytes.fromhex(shown.hex) == bytes(value)
    if letter == "V":
        return text == ""
    plain = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return not is_plain(plain) or text == plain


def is_plain(text: str) -> bool:
    """Whether tshark shows a text unescaped."""
    return text.isascii() and text.isprintable() and "\\" not in text


def is_close(value: float, text: str) -> bool:
    """Whether a text equals a number as tshark shows it, with six decimal places."""
    if value != value:
        return "nan" in text
    try:
        return value == float(text) or abs(value - float(text)) <= max(1e-6, abs(value) * 1e-6)
    except ValueError:
        return False
