"""Assembly of whole commands from the frames of a captured 0-10 connection, some of which may be missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from amqproxy.amqp010.assembly import Assembly, AssemblyReader
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import ProtocolError as ProtocolError091
from amqproxy.capture.decoded import DecodedFrames
from amqproxy.conversion.amqp010.command_view import command_view
from amqproxy.peer import CLIENT, Peer
from amqproxy.rules.amqp010.client_info import updated_amqp010_client
from amqproxy.rules.context import Client


class ViewedAssembly(NamedTuple):
    """A whole control or command, with its 0-9-1 equivalent, if it has one."""

    assembly: Assembly
    view: Command | None


class AssemblyGatherer:
    """Assembles the controls and commands of both peers of one connection; incomplete or malformed ones are omitted."""

    def __init__(self, client: Client | None = None) -> None:
        self.client = client or Client()
        """The client, as far as its `commands` show it."""
        self._readers: dict[tuple[Peer, int], AssemblyReader] = {}

    def commands(self, decoded: DecodedFrames) -> Iterator[Command]:
        """Yield the views of the commands that these frames complete, except heartbeats."""
        sender = Peer(decoded.sender)
        for frame, command_id in zip(decoded.frames, decoded.command_ids, strict=True):
            found = self.gather(sender, frame, command_id)
            if found is None:
                continue
            if sender is CLIENT:
                self.client = updated_amqp010_client(self.client, found.assembly.method)
            if found.view is not None and found.view.index >= 0:
                yield found.view

    def gather(self, sender: Peer, frame: Frame, command_id: int | None) -> ViewedAssembly | None:
        """Return the command that a frame completes; malformed frames are reported by the decoder."""
        place = (sender, frame.channel)
        reader = self._readers.get(place)
        if reader is None:
            reader = self._readers[place] = AssemblyReader()
        try:
            assembly = reader.add(frame)
            if assembly is None:
                return None
            view = command_view(sender, assembly, command_id or 0)
            if view is not None and view.index >= 0:
                _ = view.method  # a name may not be valid text in 0-9-1
            return ViewedAssembly(assembly, view)
        except (ProtocolError, ProtocolError091):
            return None
