"""View of a complete AMQP 0-10 control or command as a 0-9-1 command for rules, and conversion of their changes.

The view has its own frames, as if it had been received, and so is decoded only as far as needed.
"""

from __future__ import annotations

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.controls import ConnectionHeartbeat
from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import BODY, HEADER, HEARTBEAT_FRAME, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.conversion.amqp010.message_views import (
    changed_header,
    changed_transfer,
    properties_view,
    transfer_view,
    with_length,
    without_long_texts,
)
from amqproxy.conversion.amqp010.method_views import method_view, shape_of
from amqproxy.conversion.inexpressible import Inexpressible
from amqproxy.conversion.view_fields import QueueQueryOk
from amqproxy.peer import Peer

HIGHEST_CHANNEL = 65_535


def command_view(
    sender: Peer,
    assembly: Assembly,
    position: int = 0,
    body_size: int | None = None,
    *,
    falls_back: bool = False,
) -> Command | None:
    """Return the 0-9-1 view of an assembly; `None` if it has no counterpart; raise `ProtocolError` if it is malformed.

    `position` is the command's in its session. `body_size` is the size of a body that is incomplete, and then is not
    read. A client's transfer `falls_back` if its destination may not be an exchange: see `FALLS_BACK`.

    The properties of a message may be longer than 0-9-1 allows: then the view's frames lack them; frames also lack a
    queue's alternate exchange.
    """
    original = assembly.method
    if isinstance(original, ConnectionHeartbeat):
        return Command.received([Frame(HEARTBEAT_FRAME)])
    if not isinstance(original, MessageTransfer):
        method = method_view(sender, original)
        if method is None:
            return None
        number = 0 if method.name.startswith("connection.") else view_channel(assembly.channel)
        command = Command.received([_frame(number, method)])
        return command.altered(method) if isinstance(method, QueueQueryOk) else command
    number, header = view_channel(assembly.channel), assembly.header
    frames = [_frame(number, transfer_view(sender, original, header, position, falls_back=falls_back))]
    size = assembly.body_size if body_size is None else body_size
    properties = properties_view(header)
    fitting = without_long_texts(properties)
    content = ContentHeader(size, fitting)
    frames.append(Frame(encode_frame(HEADER, number, content.encode())))
    if size and body_size is None:
        frames.append(Frame(encode_frame(BODY, number, assembly.body)))
    command = Command.received(frames)
    return command if fitting is properties else command.altered(properties=properties)


def view_channel(number: int) -> int:
    """Return the 0-9-1 channel of a session; channel 0, the connection's own in 0-9-1, becomes the highest number."""
    return number or HIGHEST_CHANNEL


def _frame(channel: int, method: Method) -> Frame:
    return Frame(encode_method(channel, method))


def changed_assembly(sender: Peer, original: Assembly, before: Command, after: Command) -> Assembly:
    """Return the original with the differences between its view and the rules' result.

    Raise `Inexpressible` if 0-10 cannot express them. If only a part of the body has been received, the result has that
    part.
    """
    method, header = original.method, original.header
    if after.index < 0 or before.index < 0:
        raise Inexpressible("a heartbeat cannot be changed")
    if isinstance(method, MessageTransfer):
        method, header = changed_transfer(sender, method, header, before.method, after.method)
        header = changed_header(header, before.properties, after.properties)
        body = None
        if not after.frames:  # a rule has replaced the body
            body = after.body
            header = with_length(header, len(body))
        return original.altered(method, header, body)
    shape = shape_of(sender, method)
    assert shape is not None
    return original.altered(shape.changed(method, before.method, after.method))
