"""A target broker whose answers to publishes a test writes down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import trio

from amqproxy.amqp091.commands import Command, CommandReader
from amqproxy.amqp091.frame import HEARTBEAT_FRAME, Frame
from amqproxy.amqp091.methods import BasicReturn, ChannelClose, Method
from amqproxy.moving.broker_link import BrokerLink
from amqproxy.sockets.transport import TransportBroken

CHANNEL = 1

Answer = TypeVar("Answer", bound=Method)

Reply = Method | Command | None
"""What the target sends; `None` is a heartbeat."""

Script = Callable[[int, Command], Sequence[Reply]]
"""Returns the replies to a publish; it gets its number on its channel, from 1."""


def frames_of(data: bytes) -> list[Frame]:
    """Cut bytes into frames."""
    found = []
    while data:
        end = 8 + int.from_bytes(data[3:7])
        found.append(Frame(data[:end]))
        data = data[end:]
    return found


def returned(command: Command) -> Command:
    """Return the basic.return of a publish."""
    method = command.method
    back = BasicReturn(312, "NO_ROUTE", method.exchange, method.routing_key)
    return Command(CHANNEL, back, command.properties, command.body)


class ScriptedTarget(BrokerLink):
    """A link to such a broker; `channels` has the bodies that were published on each channel, `asked` the requests."""

    frame_max = 4096

    def __init__(self, script: Script) -> None:
        self.channels: list[list[bytes]] = []
        self.asked: list[Method] = []
        self.beats = 0
        self._script = script
        self._open()

    def _open(self) -> None:
        self.channels.append([])
        self._is_closed = False
        self._commands = CommandReader()
        self._into, self._out = trio.open_memory_channel[Frame](10_000)

    async def send(self, data: bytes) -> None:
        for frame in frames_of(data):
            command = self._commands.add(frame)
            if command is None or self._is_closed:
                continue
            self.channels[-1].append(command.body)
            for reply in self._script(len(self.channels[-1]), command):
                if reply is None:
                    encoded = HEARTBEAT_FRAME
                else:
                    whole = reply if isinstance(reply, Command) else Command(CHANNEL, reply)
                    encoded = whole.encode(4096)
                    self._is_closed = isinstance(whole.method, ChannelClose)
                for each in frames_of(encoded):
                    self._into.send_nowait(each)

    async def receive(self) -> list[Frame]:
        with trio.move_on_after(10):
            return [await self._out.receive()]
        self.beats += 1
        if self.beats > 1000:
            raise TransportBroken("nobody gave up")
        return frames_of(HEARTBEAT_FRAME)

    async def ask(self, method: Method, answer: type[Answer]) -> Answer:
        self.asked.append(method)
        return answer()

    async def renew_channel(self) -> None:
        self._open()
