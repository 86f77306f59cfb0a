"""Checks for arguments that RabbitMQ's parser refuses, although the codec, shared with the proxy, accepts them."""

from __future__ import annotations

from amqproxy.amqp091.errors import ErrorKind, FrameError, ProtocolError
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.methods import BY_INDEX, BasicPublish, Method
from amqproxy.amqp091.wire import Table, check_table

_TEXTS = {
    cls: tuple(name for name, code in zip(cls.__struct_fields__, cls.layout.decode(), strict=True) if code == "u")
    for cls in BY_INDEX
    if cls is not BasicPublish  # RabbitMQ takes its names as bytes
}
_TABLES = {
    cls: tuple(name for name, code in zip(cls.__struct_fields__, cls.layout.decode(), strict=True) if code == "F")
    for cls in BY_INDEX
}


def check(frame: Frame) -> None:
    """Decode a method; raise 501 for a short string that is not UTF-8, 502 for a table value that Erlang lacks.

    RabbitMQ does this first, also on a channel where the method would be discarded.
    """
    try:
        _check(frame.method)
    except ProtocolError as error:
        cls = BY_INDEX[frame.index]
        error.channel, error.class_id, error.method_id = frame.channel, cls.class_id, cls.method_id
        raise


def _check(method: Method) -> None:
    cls = type(method)
    for name in _TEXTS.get(cls, ()):
        text: str = getattr(method, name)
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise FrameError(f"{name} is not UTF-8", kind=ErrorKind.NOT_UTF_8) from None
    for name in _TABLES[cls]:
        check_arguments(getattr(method, name))


def check_arguments(table: Table) -> None:
    """Raise 502 for a value of the type `U`, which RabbitMQ does not know, or for a number that is not finite."""
    octets = table.octets
    check_table(octets, 0, len(octets), is_erlang=True)
