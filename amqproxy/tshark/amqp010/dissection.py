"""Frames of AMQP 0-10 as Wireshark's dissector reads them, from what tshark shows of each."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree import ElementTree

from amqproxy.amqp010.frame import OVERHEAD
from amqproxy.amqp010.protocol_header import NAME
from amqproxy.tshark.dissected_frame import DissectedFrame, Shown

TYPES = ("control", "command", "header", "body")

WHOLE = "arguments as a whole"
"""The name of the field that has what tshark shows of all arguments together."""

SIZE = ".size"
"""How the names of fields end that are sizes of what follows them."""

_ABOUT_STRUCTS = frozenset(
    f"amqp.{name}"
    for name in ("struct.packing", "struct32.class", "struct32.struct", "struct32.padding", "struct32_size")
)
"""Fields that say how a struct is laid out, and not what is in it."""


def amqp010_frame(
    layer: ElementTree.Element, found: dict[str, Shown], packet: int, stream: int, port: int
) -> DissectedFrame:
    """The frame that a layer is, whose fields are `found` by name. A header's fields are its structs."""
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
    """A field; what has no text has its label as one, and what is an entry of a map has it for a name."""
    name, text, label = field.get("name", ""), field.get("show", ""), field.get("showname", "")
    within = tuple(map(shown_field, field))
    return Shown(label if name == "amqp.field" else name, text or label, field.get("value", ""), within)


def fields_of(shown: Iterable[Shown]) -> dict[str, Shown]:
    """The fields of a struct by the last word of their names, as far as they are values of it."""
    return {
        each.label.rpartition(".")[2].replace("-", "_"): each
        for each in shown
        if each.label not in _ABOUT_STRUCTS and not each.label.endswith(SIZE)
    }
