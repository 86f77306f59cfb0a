"""Comparison of the fields of one AMQP 0-10 frame as decoded by amqproxy and by tshark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from msgspec.structs import replace

from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import BODY, Frame
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.structs import Struct
from amqproxy.amqp010.wire import Array, Map, UnknownStruct
from amqproxy.taps.record import MASK
from amqproxy.tshark import known_faults
from amqproxy.tshark.amqp010 import known_faults as amqp010_faults
from amqproxy.tshark.amqp010.dissection import WHOLE, fields_of
from amqproxy.tshark.dissected_frame import DissectedFrame, Shown
from amqproxy.tshark.field_comparison import TRUNCATED, FieldDifference, is_close, is_plain, is_same

NOTHING = "nothing"


def amqp010_field_differences(frame: Frame, dissected: DissectedFrame) -> Iterator[FieldDifference]:
    """Yield the fields that tshark shows differently, in a frame of the same kind, channel, size and assembly position.

    Bodies, whose bytes tshark does not show, and parts of a segment, which it does not join, have no fields.
    """
    if frame.kind == BODY or not (frame.is_first_frame and frame.is_last_frame):
        return
    try:
        is_header = dissected.method is None
        found = _header_differences(frame, dissected) if is_header else _method_differences(frame.method, dissected)
        for each in found:
            is_given_up = dissected.is_given_up and each.known is None and each.theirs == NOTHING
            yield replace(each, known=amqp010_faults.GIVEN_UP) if is_given_up else each
    except ProtocolError as error:
        yield FieldDifference("", f"{error.code} {error.text}", "no error", known_faults.FRAME_END)


def _method_differences(method: Method, dissected: DissectedFrame) -> Iterator[FieldDifference]:
    number = (method.class_code, method.method_code)
    if number != dissected.method:
        known = amqp010_faults.TX if method.name.startswith("tx.") else None
        yield FieldDifference("method", method.name, f"method {dissected.method}", known)
    ours = {name: getattr(method, field) for name, field in method.spoken}
    theirs = dict(dissected.fields)
    whole = theirs.pop(WHOLE, None)
    xid = ours.get("xid")
    has_size = xid is not None and not xid.is_plain
    for each in _differences(ours, theirs, "", whole):
        known = each.known or amqp010_faults.OF_FIELDS.get((method.name, each.field.partition(".")[0]))
        if known is None and has_size:
            known = amqp010_faults.XID
        values = (MASK, MASK) if each.field == method.secret else (each.ours, each.theirs)
        yield FieldDifference(each.field, *values, known)


def _header_differences(frame: Frame, dissected: DissectedFrame) -> Iterator[FieldDifference]:
    entries = {f"0x{entry.code:04x}": entry for entry in frame.header.entries}
    for code, entry in entries.items():
        shown = dissected.fields.get(code)
        if shown is None:
            yield FieldDifference(code, repr(entry), NOTHING)
        elif not isinstance(entry, UnknownStruct):
            yield from _differences(_values(entry), fields_of(shown.within), f"{entry.name}.")
    for code in dissected.fields.keys() - entries.keys():
        yield FieldDifference(code, NOTHING, dissected.fields[code].text)


def _values(struct: Struct) -> dict[str, Any]:
    return {field: getattr(struct, field) for field in struct.fields}


def _differences(
    ours: Mapping[str, Any], theirs: Mapping[str, Shown], path: str, whole: Shown | None = None
) -> Iterator[FieldDifference]:
    """Yield the differences between fields of the same struct; `whole` is tshark's text for all of them together."""
    names = amqp010_faults.NAMES
    left = {name if name in ours else names.get(name, name): shown for name, shown in theirs.items()}
    for name, value in ours.items():
        shown, where = left.pop(name, None), path + name
        if value is None or value is False:
            if shown is not None and shown.text not in ("0", "False"):
                yield FieldDifference(where, NOTHING, repr(shown.text))
        elif shown is None:
            yield FieldDifference(where, repr(value), NOTHING)
        elif isinstance(value, Struct):
            for each in _differences(_values(value), fields_of(shown.within), f"{where}."):
                yield replace(each, known=each.known or amqp010_faults.OF_STRUCTS.get(value.name))
        elif isinstance(value, SequenceSet):
            texts = [shown.text, *([] if whole is None else [whole.text])]
            if not any(str(list(value.ranges)) in text for text in texts):
                yield FieldDifference(where, str(list(value.ranges)), shown.text)
        elif isinstance(value, Map):
            yield from _map_differences(where, value, shown.within)
        elif isinstance(value, Array):
            yield from _array_differences(where, value, shown)
        elif not is_same(value.bytes if isinstance(value, UUID) else value, shown):
            yield FieldDifference(where, repr(value), repr(shown.text))
    for name, shown in left.items():
        yield FieldDifference(path + name, NOTHING, repr(shown.text))


def _map_differences(path: str, value: Map, shown: tuple[Shown, ...]) -> Iterator[FieldDifference]:
    known = amqp010_faults.VOID if any(entry.type in ("void", "bit") for entry in value.entries) else None
    if len(value.entries) != len(shown):
        yield FieldDifference(path, f"{len(value.entries)} entries", f"{len(shown)} entries", known)
        return
    for (name, type_, each), theirs in zip(value.entries, shown, strict=True):
        if not _is_same_entry(name, type_, each, theirs.label):
            yield FieldDifference(f"{path}.{name}", f"{name} ({type_}): {each!r}", theirs.label, known)


def _is_same_entry(name: str, type_: str, value: Any, label: str) -> bool:
    """Whether a map entry equals tshark's text for it, since its bytes are absent; escaped or truncated parts match."""
    shown = label.removeprefix(TRUNCATED)
    is_cut, label = shown != label, shown
    if not is_plain(name):
        return True
    if not label.startswith(f"{name} ("):
        return is_cut and f"{name} (".startswith(label)
    shown_type, _, text = label[len(name) + 2 :].partition(")")
    text = text.removeprefix(":").removeprefix(" ")
    if shown_type in amqp010_faults.NOT_SHOWN:  # it shows only the size
        return True
    if shown_type != type_:
        return False
    if type_ == "boolean":
        return text == str(value).lower()
    if isinstance(value, float):
        return is_close(value, text)
    plain = value.hex() if isinstance(value, bytes) else str(value)
    return not is_plain(plain) or text == plain or (is_cut and plain.startswith(text))


def _array_differences(path: str, value: Array, shown: Shown) -> Iterator[FieldDifference]:
    if bytes.fromhex(shown.hex) != value.encoded:
        yield FieldDifference(path, repr(value), shown.text)
