"""Messages of a stream, from an offset: reading changes nothing in it."""

from __future__ import annotations

from collections.abc import Callable

import trio

from amqproxy.amqp091.commands import CommandReader
from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    ConnectionClose,
)
from amqproxy.amqp091.wire import Field, Table
from amqproxy.moving.broker_link import BrokerLink, ChannelRefused
from amqproxy.moving.message_forwarder import CHANNEL, MoveFailed, refusal
from amqproxy.workbench.held_message import HeldMessage

PREFETCH = 100
"""Messages that are read ahead."""

SILENCE = 2.0
"""Seconds without a message after which the stream counts as read to its end: AMQP does not say where that is."""

Offset = int | str
"""x-stream-offset: a number, "first", "last" (the last chunk), "next", or an interval such as 1h."""


async def read_stream(
    link: BrokerLink, queue: str, offset: Offset, see: Callable[[HeldMessage], bool], silence: float = SILENCE
) -> None:
    """Call `see` for each message from `offset` on, until it returns `False` or no message comes any more."""
    typed = Field("x-stream-offset", "l" if isinstance(offset, int) else "S", offset)
    try:
        await link.ask(BasicQos(prefetch_count=PREFETCH), BasicQosOk)
        consume = BasicConsume(queue=queue, consumer_tag="amqproxy.queue", arguments=Table([typed]))
        await link.request(consume)
    except ChannelRefused as error:
        raise MoveFailed(str(error)) from None
    commands = CommandReader()
    position = 0
    while True:
        with trio.move_on_after(silence) as patience:
            frames = await link.receive()
        if patience.cancelled_caught:
            return
        for frame in frames:
            if not frame.channel and frame.kind != 1:
                continue
            command = commands.add(frame)
            if command is None or isinstance(command.method, BasicConsumeOk):
                continue
            if isinstance(command.method, ChannelClose | ConnectionClose):
                raise refusal("the source", command.method)
            if isinstance(command.method, BasicDeliver):
                if not see(HeldMessage(command, position)):
                    return
                position += 1
                # An acknowledgement only asks for more.
                await link.send(encode_method(CHANNEL, BasicAck(command.method.delivery_tag)))
