"""One publish on a connection of its own, with the broker's confirm, as a capture for `amqproxy replay` to send."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.amqp091.wire import Table
from amqproxy.control.message_patch import MessagePatch
from amqproxy.dashboard.equivalent_command import equivalent_command
from amqproxy.dashboard.message_ring import Content
from amqproxy.replay.traffic_capture import pcapng_of
from amqproxy.replay.traffic_log import TrafficLog
from amqproxy.rules.context import Client, CommandContext

FRAME_MAX = 131_072
"""The recorded frame_max; a replay splits bodies as its own broker demands."""

CHANNEL = 1

_NAME = Table(
    {
        "product": "amqproxy",
        "connection_name": "amqproxy: a message sent again",
        "capabilities": Table({"basic.nack": True, "publisher_confirms": True, "authentication_failure_close": True}),
    }
)


def write_conversation(path: Path, conversation: Iterable[tuple[Peer, bytes]]) -> None:
    """Write a capture of what the peers of one connection send."""
    log = TrafficLog(time.time_ns())
    for sender, data in conversation:
        log.note(0, sender, data, 0.0)
    with path.open("wb") as file:
        for piece in pcapng_of(log, program="amqproxy", comment="a message that is sent again"):
            file.write(piece)


def conversation(publish: Command, virtual_host: str) -> Iterator[tuple[Peer, bytes]]:
    """Yield who sends what: the login, a channel in confirm mode, the publish with its confirm, and the end."""

    def said(sender: Peer, method: Method, channel: int = 0) -> tuple[Peer, bytes]:
        return sender, Command(channel, method).encode(FRAME_MAX)

    yield CLIENT, HEADER
    yield said(SERVER, ConnectionStart(server_properties=_NAME))
    yield said(CLIENT, ConnectionStartOk(_NAME))
    yield said(SERVER, ConnectionTune(0, FRAME_MAX, 0))
    yield said(CLIENT, ConnectionTuneOk(0, FRAME_MAX, 0))
    yield said(CLIENT, ConnectionOpen(virtual_host))
    yield said(SERVER, ConnectionOpenOk())
    yield said(CLIENT, ChannelOpen(), CHANNEL)
    yield said(SERVER, ChannelOpenOk(), CHANNEL)
    yield said(CLIENT, ConfirmSelect(), CHANNEL)
    yield said(SERVER, ConfirmSelectOk(), CHANNEL)
    yield CLIENT, publish.encode(FRAME_MAX)
    yield said(SERVER, BasicAck(1), CHANNEL)
    yield said(CLIENT, ChannelClose(), CHANNEL)
    yield said(SERVER, ChannelCloseOk(), CHANNEL)
    yield said(CLIENT, ConnectionClose())
    yield said(SERVER, ConnectionCloseOk())


def publish_of(content: Content) -> Command | None:
    """Return a message as a publish in terms of 0-9-1, which is returned if no queue takes it; None if rules never see
    such a command.
    """
    found = equivalent_command(content)
    if found is None:
        return None
    exchange, routing_key = getattr(found.method, "exchange", ""), getattr(found.method, "routing_key", "")
    publish = BasicPublish(exchange=exchange, routing_key=routing_key, mandatory=True)
    return Command(CHANNEL, publish, found.properties, content.body)


def edited(publish: Command, patch: MessagePatch) -> Command:
    """Return the publish with an operator's changes. `ValueError` if one is not possible."""
    changed = patch.of(publish, CommandContext(sender=CLIENT, command=publish, client=Client()))
    try:
        changed.encode(0)
    except OverflowError as error:
        raise ValueError(str(error)) from None
    return changed
