"""Assembly of whole commands from the frames of a captured connection, some of which may be missing."""

from __future__ import annotations

from collections.abc import Iterator

from amqproxy.amqp091.commands import Command, CommandReader
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import BODY, HEADER, HEARTBEAT, METHOD, Frame
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.capture.decoded import DecodedFrames
from amqproxy.rules.client_info import updated_client
from amqproxy.rules.context import Client


class CommandGatherer:
    """Assembles the commands of both peers of one connection; incomplete or malformed ones are omitted."""

    def __init__(self, client: Client | None = None) -> None:
        self.client = client or Client()
        """The client, as far as its `commands` show it."""
        self._readers: dict[tuple[Peer, int], CommandReader] = {}
        self._expected: dict[tuple[Peer, int], int] = {}
        """The expected frame kind of each content that has begun."""

    def commands(self, decoded: DecodedFrames) -> Iterator[Command]:
        """Yield the commands that these frames complete, except heartbeats."""
        sender = Peer(decoded.sender)
        for frame in decoded.frames:
            command = self.gather(sender, frame)
            if command is not None and command.index >= 0:
                if sender is CLIENT:
                    self.client = updated_client(self.client, command.method)
                yield command

    def gather(self, sender: Peer, frame: Frame) -> Command | None:
        """Return the command that a frame completes; malformed frames are reported by the decoder."""
        if frame.kind == HEARTBEAT:
            return Command.received([frame])
        place = (sender, frame.channel)
        if frame.kind != METHOD and self._expected.get(place) != frame.kind:
            self._expected.pop(place, None)
            return None  # part of a content whose beginning is not in the capture
        reader = self._readers.get(place)
        if reader is None:
            reader = self._readers[place] = CommandReader()
        try:
            command = reader.add(frame)
        except (ProtocolError, IndexError):
            self._expected.pop(place, None)
            return None
        if command is None:
            self._expected[place] = HEADER if frame.kind == METHOD else BODY
        else:
            self._expected.pop(place, None)
        return command
