"""AMQP 0-10 frames as read by Wireshark's dissector, from tshark's output for each."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree import ElementTree

from amqproxy.amqp010.frame import OVERHEAD
from amqproxy.amqp010.protocol_header import NAME
from amqproxy.tshark.dissected_frame import DissectedFrame, Shown

TYPES = ("control", "command", "header", "body")

WHOLE = "arguments as a whole"
"""Name of the field with tshark's text for all arguments together."""

SIZE = ".size"
"""Suffix of the names of fields that hold the size of the following field."""

_ABOUT_STRUCTS = frozenset(
    f"amqp.{name}"
    for name in ("struct.packing", "struct32.class", "struct32.struct", "struct32.padding", "struct32_size")
)
"""Fields that describe the layout of a struct instead of its content."""


def amqp010_frame(
    layer: ElementTree.Element, found: dict[str, Shown], packet: int, stream: int, port: int
) -> DissectedFrame:
    """Return the frame of a layer, whose fields are `found` by name; a header's fields are its structs."""
    kind = int(found["amqp.type"].text)
    method = None
    fields: dict[str, Shown] = {}
    if "amqp.class" in found:
        number = next(shown for name, shown in found.items() if name.endswith(".method"))
        method = (int(found["amqp.class"].text), int(number.text))
        arguments = next((each for each in layer if each.get("name") == "amqp.method.arguments"), None)
        fields = fields_of(() if arguments is None else map(shown_field, arguments))
        if arguments is not None:
            fields[WHOLE] = Shown("", arguments.get("showname", ""), "")
    else:
        structs = [shown_field(each) for each in layer if each.get("name") == "amqp.struct32"]
        fields = {each.text: each for each in structs}
    return DissectedFrame(
        packet=packet,
        stream=stream,
        source_port=port,
        protocol=NAME,
        type=TYPES[kind] if kind < len(TYPES) else f"type {kind}",
        channel=int(found["amqp.channel"].text),
        size=int(found["amqp.length"].text) - OVERHEAD,
        flags=int(found["amqp.frame-position"].text),
        method=method,
        fields=fields,
    )


def shown_field(field: ElementTree.Element) -> Shown:
    """Convert a field; the label replaces a missing text, and serves as the name of a map entry."""
    name, text, label = field.get("name", ""), field.get("show", ""), field.get("showname", "")
    within = tuple(map(shown_field, field))
    return Shown(label if name == "amqp.field" else name, text or label, field.get("value", ""), within)


def fields_of(shown: Iterable[Shown]) -> dict[str, Shown]:
    """Return the fields of a struct that hold values, by the last word of their names."""
    return {
        each.label.rpartition(".")[2].replace("-", "_"): each
        for each in shown
        if each.label not in _ABOUT_STRUCTS and not each.label.endswith(SIZE)
    }
