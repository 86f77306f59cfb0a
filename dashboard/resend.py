"""A capture of one publish on a connection of its own, with the broker's confirm, for `amqproxy replay` to send."""

from __future__ import annotations

import time
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
from amqproxy.replay.traffic_capture import pcapng_of
from amqproxy.replay.traffic_log import TrafficLog
from amqproxy.rules.context import Client, CommandContext
from dashboard.equivalent_command import equivalent_command
from dashboard.message_ring import Content

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


def write_publish(path: Path, publish: Command, virtual_host: str) -> None:
    """Write the capture: the login, a channel in confirm mode, the publish with its confirm, and the end."""
    log = TrafficLog(time.time_ns())

    def say(sender: Peer, command: Command | Method, channel: int = 0) -> None:
        whole = command if isinstance(command, Command) else Command(channel, command)
        log.note(0, sender, whole.encode(FRAME_MAX), 0.0)

    log.note(0, CLIENT, HEADER, 0.0)
    say(SERVER, ConnectionStart(server_properties=_NAME))
    say(CLIENT, ConnectionStartOk(_NAME))
    say(SERVER, ConnectionTune(0, FRAME_MAX, 0))
    say(CLIENT, ConnectionTuneOk(0, FRAME_MAX, 0))
    say(CLIENT, ConnectionOpen(virtual_host))
    say(SERVER, ConnectionOpenOk())
    say(CLIENT, ChannelOpen(), CHANNEL)
    say(SERVER, ChannelOpenOk(), CHANNEL)
    say(CLIENT, ConfirmSelect(), CHANNEL)
    say(SERVER, ConfirmSelectOk(), CHANNEL)
    say(CLIENT, publish)
    say(SERVER, BasicAck(1), CHANNEL)
    say(CLIENT, ChannelClose(), CHANNEL)
    say(SERVER, ChannelCloseOk(), CHANNEL)
    say(CLIENT, ConnectionClose())
    say(SERVER, ConnectionCloseOk())
    with path.open("wb") as file:
        for piece in pcapng_of(log, program="amqproxy", comment="a message that is sent again"):
            file.write(piece)


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
