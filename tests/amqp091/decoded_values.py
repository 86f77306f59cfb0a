"""Values of fields and property lists as plain lists, for layouts of no struct."""

from typing import Any

from amqproxy.amqp091.wire import StructDecoder


class _Values(list[Any]):
    """A class without fields at fixed places in memory, so that its decoder calls it with the values."""

    __struct_fields__ = ()

    def __init__(self, *values: Any) -> None:
        super().__init__(values)


def decode_fields(layout: bytes, data: bytes, position: int, end: int) -> list[Any]:
    """Return the values in `data[position:end]`, which must match `layout` exactly."""
    return list(StructDecoder(_Values, layout).of_fields(data, position, end))


def decode_flagged(layout: bytes, data: bytes, position: int, end: int) -> list[Any]:
    """Return the values of a property list, `None` for missing ones."""
    return list(StructDecoder(_Values, layout).of_flagged(data, position, end))
