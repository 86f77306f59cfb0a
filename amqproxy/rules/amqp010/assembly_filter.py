"""Filter for the frames of one AMQP 0-10 connection, by the commands that they carry.

The names of a filter have these meanings: `method` is a control or command; `exchange` is the destination exchange of a
client's message.transfer, or the source of a server's; `routing_key` is that of the message, or a binding key;
`consumer_tag` is the destination of a subscription; `properties` are all properties of a message, `headers` its
application-headers. Tags and channel counters are not available.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from amqproxy.amqp010.assembly import Assembly, AssemblyReader
from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.controls import SessionCommandPoint
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import CONTROL, CONTROL_TRACK, Frame
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.properties import Header
from amqproxy.amqp010.wire import Map
from amqproxy.peer import CLIENT, Peer
from amqproxy.rules.amqp010.client_info import updated_amqp010_client
from amqproxy.rules.context import Client
from amqproxy.rules.engine.frame_filter import FRAME_COST, MemoryRoom
from amqproxy.rules.matching.attributes import NAMES, SECRETS, AttributeSource, client_value
from amqproxy.rules.matching.filters import Filter, FilterFailed
from amqproxy.taps.amqp010.record import plain
from amqproxy.taps.amqp010.transfers import TransferBase, TransferProperties

Mark = TypeVar("Mark")
"""Caller's mark of a frame, returned with it: the id of its command, or its place in a store."""


class _OpenAssembly(Generic[Mark]):
    """Incomplete assembly: its frames with their marks, and their memory cost.

    `is_shown` if there was no room to hold the rest of it.
    """

    __slots__ = ("cost", "frames", "is_shown", "reader")

    def __init__(self) -> None:
        self.reader = AssemblyReader()
        self.frames: list[tuple[Frame, Mark]] = []
        self.cost = 0
        self.is_shown = False


class AssemblyFilter(Generic[Mark]):
    """Filter for the frames that both peers send, from the beginning of a connection.

    The frames of an assembly are passed once it is complete. A frame also passes if the filter fails, if it is
    malformed, or if there is no `room` to hold it, so that such frames are seen.
    """

    METHODS: ClassVar[tuple[type, ...]] = (Method, TransferBase)
    """Classes of the methods that it selects from."""

    def __init__(self, chosen: Filter, client: Client, room: MemoryRoom | None = None) -> None:
        self._filter = chosen
        self._client = client
        self._room = room
        self._open: dict[tuple[Peer, int, int], _OpenAssembly[Mark]] = {}

    def sift(
        self, sender: Peer, frames: Sequence[Frame], marks: Sequence[Mark], time: float
    ) -> list[tuple[Frame, Mark]]:
        """Return the frames that pass, from these and those held earlier, each with its mark."""
        passed: list[tuple[Frame, Mark]] = []
        for frame, mark in zip(frames, marks, strict=True):
            place = sender, frame.channel, frame.track
            held = self._open.get(place)
            if held is None or frame.begins_assembly:  # the previous assembly was cut off
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

    def passing(
        self: AssemblyFilter[int | None],
        sender: Peer,
        frames: Sequence[Frame],
        command_ids: Sequence[int | None],
        time: float,
        tags: tuple[str, ...] = (),
        keeps: Callable[[Frame], bool] | None = None,
    ) -> tuple[Sequence[Frame], Sequence[int | None]]:
        """Return the frames that pass, and the ids of their commands; see `ConnectionFilter`.

        If frames are kept regardless of the filter, controls are, except session.command-point: a reader without it
        finds command ids unknown, and with it would find wrong ones.
        """
        if keeps is None:
            found = self.sift(sender, frames, command_ids, time)
        else:
            found = []
            for frame, number in zip(frames, command_ids, strict=True):
                if frame.track == CONTROL_TRACK:
                    found += [] if frame.index == SessionCommandPoint.index else [(frame, number)]
                else:
                    found += self.sift(sender, [frame], [number], time)
        return [frame for frame, _ in found], [number for _, number in found]

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
        """Pass the frames of an incomplete assembly."""
        passed += held.frames
        held.is_shown = True
        held.frames = []
        self._free(held)

    def _free(self, held: _OpenAssembly[Mark]) -> None:
        if held.cost and self._room is not None:
            self._room.remove(held.cost)
        held.cost = 0

    def holds(self, sender: Peer, assembly: Assembly, time: float, size: int | None = None) -> bool:
        """Whether the filter holds; `size` is the body size if the assembly has only a part of the body."""
        try:
            if size is None or size == assembly.body_size:
                return self._filter.holds(lambda path: self._value(path, sender, assembly, time))
            return self._filter.holds(
                lambda path: size if path == "size" else self._value(path, sender, assembly, time)
            )
        except (FilterFailed, ProtocolError):
            return True

    def selects(
        self,
        sender: Peer,
        channel: int,
        method: Any,
        properties: object,
        size: int,
        body: bytes,
        *,
        ts_ns: int,
        tags: tuple[str, ...] = (),
    ) -> bool:
        """Whether the filter holds for a command as events have it; also true if the filter fails."""
        if isinstance(method, TransferBase):
            header = properties.header if isinstance(properties, TransferProperties) else None
            return self.holds(sender, Assembly(channel, method.transfer, header, body), ts_ns / 1e9, size=size)
        return self.holds(sender, Assembly(channel, method), ts_ns / 1e9)

    def learn(self, sender: Peer, frame: object) -> None:
        """Update the client facts from a complete control."""
        if isinstance(frame, Frame) and frame.kind == CONTROL and frame.begins_assembly and frame.ends_assembly:
            with suppress(ProtocolError):
                self._learn(sender, Assembly.received([frame]))

    def _learn(self, sender: Peer, assembly: Assembly) -> None:
        """Update the client facts from a control of the handshake."""
        if sender is CLIENT and not assembly.is_command:
            self._client = updated_amqp010_client(self._client, assembly.method)

    def _value(self, path: str, sender: Peer, assembly: Assembly, time: float) -> Any:
        """Return the value of a filter name; `None` if the command has none."""
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
                return {name: plain(each) for name, each in method.to_dict().items() if name not in SECRETS}
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
                return plain(_property(header, "application_headers") or Map())
            case "properties":
                return plain(_property(header, member))
            case "exchange" if isinstance(method, MessageTransfer):
                return method.destination or "" if sender is CLIENT else _property(header, "exchange")
            case "routing_key":
                return _property(header, "routing_key") if header else getattr(method, "binding_key", None)
            case "consumer_tag":
                return getattr(method, "destination", None) if method.name in _OF_SUBSCRIPTIONS else None
            case _:
                return plain(getattr(method, path, None))


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
