"""The frames of one connection of AMQP 0-10 that a filter lets by: those of the commands for which it holds.

The names of a filter mean here: `method` a control or command; `exchange` the one that a client's message.transfer is
to, or that a server's comes from; `routing_key` what the message has, or a binding's key; `consumer_tag` a
subscription's destination; `properties` all properties of a message, `headers` its application-headers. Tags, and what
is counted on a channel, are not there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

import msgspec

from amqproxy.amqp010.assembly import Assembly, AssemblyReader
from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.properties import Header
from amqproxy.amqp010.wire import Map
from amqproxy.peer import CLIENT, Peer
from amqproxy.rules.client_info import updated_amqp010_client
from amqproxy.rules.context import Client
from amqproxy.rules.engine.frame_filter import FRAME_COST, MemoryRoom
from amqproxy.rules.matching.attributes import NAMES, SECRETS, AttributeSource, client_value
from amqproxy.rules.matching.filters import Filter, FilterFailed

Mark = TypeVar("Mark")
"""What a frame is given with, and comes back with: the id of its command, or where it is kept."""


class _OpenAssembly(Generic[Mark]):
    """An assembly under way: its frames so far with their marks, and what they cost.

    It `is_shown` if there was no room to wait for the rest of it.
    """

    __slots__ = ("cost", "frames", "is_shown", "reader")

    def __init__(self) -> None:
        self.reader = AssemblyReader()
        self.frames: list[tuple[Frame, Mark]] = []
        self.cost = 0
        self.is_shown = False


class AssemblyFilter(Generic[Mark]):
    """Filters what both peers of a connection send, from its beginning.

    What is of one assembly comes when it is whole. What the filter fails on, what is malformed, and what there is no
    `room` to wait for, is let by: that should be seen. `plain` makes of a value what rules may look into.
    """

    def __init__(
        self, chosen: Filter, client: Client, plain: Callable[[Any], Any], room: MemoryRoom | None = None
    ) -> None:
        self._filter = chosen
        self._client = client
        self._plain = plain
        self._room = room
        self._open: dict[tuple[Peer, int, int], _OpenAssembly[Mark]] = {}

    def sift(
        self, sender: Peer, frames: Sequence[Frame], marks: Sequence[Mark], time: float
    ) -> list[tuple[Frame, Mark]]:
        """Of these frames, and of those held back before, the ones that are let by now, each with its mark."""
        passed: list[tuple[Frame, Mark]] = []
        for frame, mark in zip(frames, marks, strict=True):
            place = sender, frame.channel, frame.track
            held = self._open.get(place)
            if held is None or frame.begins_assembly:  # what the one before was cut off from is missing
                if held is not None:
                    self._free(held)
                held = self._open[place] = _OpenAssembly()
            if held.is_shown:
                passed.append((frame, mark))
            else:
                self._take(sender, held, frame, mark, time, passed)
            if frame.ends_assembly:
                del self._open[place]
        return passed

    def _take(
        self,
        sender: Peer,
        held: _OpenAssembly[Mark],
        frame: Frame,
        mark: Mark,
        time: float,
        passed: list[tuple[Frame, Mark]],
    ) -> None:
        room = self._room
        held.frames.append((frame, mark))
        try:
            assembly = held.reader.add(frame)
        except ProtocolError:
            self._show(held, passed)
            return
        if assembly is not None:
            self._free(held)
            self._learn(sender, assembly)
            if self.holds(sender, assembly, time):
                passed += held.frames
        elif room is not None:
            cost = frame.length() + FRAME_COST
            if room.has_room(cost):
                room.add(cost)
                held.cost += cost
            else:
                self._show(held, passed)

    def _show(self, held: _OpenAssembly[Mark], passed: list[tuple[Frame, Mark]]) -> None:
        """Let an assembly by as it comes."""
        passed += held.frames
        held.is_shown = True
        held.frames = []
        self._free(held)

    def _free(self, held: _OpenAssembly[Mark]) -> None:
        if held.cost and self._room is not None:
            self._room.remove(held.cost)
        held.cost = 0

    def holds(self, sender: Peer, assembly: Assembly, time: float, size: int | None = None) -> bool:
        """Does the filter hold? `size` is the body's, where the assembly does not have all of it."""
        try:
            if size is None or size == assembly.body_size:
                return self._filter.holds(lambda path: self._value(path, sender, assembly, time))
            return self._filter.holds(
                lambda path: size if path == "size" else self._value(path, sender, assembly, time)
            )
        except (FilterFailed, ProtocolError):
            return True

    def learn(self, sender: Peer, frame: Frame) -> None:
        """Know the client by a control, if it is whole."""
        if frame.begins_assembly and frame.ends_assembly:
            with suppress(ProtocolError):
                self._learn(sender, Assembly.received([frame]))

    def _learn(self, sender: Peer, assembly: Assembly) -> None:
        """Know the client by what it sends while it logs in."""
        if sender is CLIENT and not assembly.is_command:
            self._client = updated_amqp010_client(self._client, assembly.method, self._plain)

    def _value(self, path: str, sender: Peer, assembly: Assembly, time: float) -> Any:
        """What a name stands for; None where there is no such thing."""
        if NAMES[path].source is AttributeSource.CLIENT:
            return client_value(path, self._client)
        group, _, member = path.partition(".")
        method = assembly.method
        header: Header | None = assembly.header
        match group:
            case "sender":
                return sender.value
            case "method":
                return method.name
            case "time":
                return time
            case "fields":
                return {name: self._plain(each) for name, each in method.to_dict().items() if name not in SECRETS}
            case "channel":
                return assembly.channel if member == "number" else None
            case "exchanges" | "queues" | "routing_keys":
                found = self._value(group[:-1], sender, assembly, time)
                return [] if found is None else [found]
            case "size":
                return assembly.body_size if method.carries_content else None
            case "body":
                return assembly.body.decode("utf-8", "replace") if method.carries_content else None
            case "json":
                return _json(assembly.body) if method.carries_content else None
            case "headers" if method.carries_content:
                return self._plain(_property(header, "application_headers") or Map())
            case "properties":
                return self._plain(_property(header, member))
            case "exchange" if isinstance(method, MessageTransfer):
                return method.destination or "" if sender is CLIENT else _property(header, "exchange")
            case "routing_key":
                return _property(header, "routing_key") if header else getattr(method, "binding_key", None)
            case "consumer_tag":
                return getattr(method, "destination", None) if method.name in _OF_SUBSCRIPTIONS else None
            case _:
                return self._plain(getattr(method, path, None))


_OF_SUBSCRIPTIONS = frozenset({"message.subscribe", "message.cancel", "message.flow", "message.stop", "message.flush"})


def _property(header: Header | None, name: str) -> Any:
    for entry in header.entries if header is not None else ():
        found = getattr(entry, name, None)
        if found is not None:
            return found
    return None


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
