"""Operations of clients in captures, as access lists see them: act, names, count, and first occurrence.

Generated names count as one name, and so do several names that differ only in numbers. Memory is bounded: if one act
concerns too many different names, they become any name, routing keys first.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.methods import ChannelCloseOk, QueueDeclare, QueueDeclareOk
from amqproxy.amqp091.transitions import CLIENT, Peer
from amqproxy.capture.decoded import Decoded, DecodedFrames, StreamEnded
from amqproxy.capture.dialects import GATHERERS, Gatherer
from amqproxy.export.name_family import NameFamily
from amqproxy.rules.context import Client
from amqproxy.rules.engine.last_queue import LastQueues
from amqproxy.rules.matching.generated_names import Shape, pattern_of, shape_of
from amqproxy.rules.matching.operations import Operation, UnknownName, operations

MAX_SHAPES = 200
"""Distinct names, or combinations of names, for one act of one client, beyond which they become any name."""

MAX_CLIENTS = 1000
"""Users, each in one virtual host, for whom evidence is kept."""

OBJECTS = ("exchange", "queue", "routing_key")
_WIDENED_IN_TURN = ("routing_key", "queue", "exchange")

ANY_NAME: Shape = ("*",)


class TooManyClients(Exception):
    """There are more clients than evidence is kept for."""


class Who(msgspec.Struct, frozen=True, order=True):
    """The subject of a line; unknown parts are "". The `address` is "" if the user is known."""

    vhost: str
    user: str
    address: str = ""


class Evidence(msgspec.Struct):
    """The count of an operation, and its first occurrence: time and connection."""

    count: int
    ts_ns: int
    stream: int
    connection: str

    def add(self, other: Evidence) -> None:
        if other.count and (not self.count or other.ts_ns < self.ts_ns):
            self.ts_ns, self.stream, self.connection = other.ts_ns, other.stream, other.connection
        self.count += other.count


def no_evidence() -> Evidence:
    return Evidence(0, 0, 0, "")


class Access(msgspec.Struct, frozen=True):
    """An act of a client, with the pattern of each object that it concerned."""

    who: Who
    act: str
    objects: tuple[tuple[str, str], ...]
    evidence: Evidence
    is_widened: bool = False
    """Whether one of the patterns is any name because the table was full."""


Names = tuple[str, ...]
_Kind = tuple[Who, str, tuple[str, ...]]
"""The client, the act, and the kinds of objects that it concerned."""


class AccessEvidence:
    """Collects evidence from decoded captures; `commands` counts the clients' commands subject to access lists."""

    def __init__(self) -> None:
        self.commands = 0
        self.connections = 0
        self._clients: dict[int, ObservedAccess] = {}
        self._found: dict[_Kind, dict[tuple[Shape, ...], NameFamily[Evidence]]] = {}
        self._any: dict[_Kind, tuple[str, ...]] = {}
        self._whos: set[Who] = set()

    def feed(self, decoded: Decoded) -> None:
        """Process the next decoded item; `TooManyClients` if evidence of another client does not fit."""
        if isinstance(decoded, StreamEnded):
            self._clients.pop(decoded.stream, None)
        if not isinstance(decoded, DecodedFrames):
            return
        observed = self._clients.get(decoded.stream)
        if observed is None:
            observed = self._clients[decoded.stream] = ObservedAccess(decoded.stream, decoded.connection)
            self.connections += 1
        for client, _, done in observed.feed(decoded):
            self.add(client, done, Evidence(1, decoded.ts_ns, decoded.stream, decoded.connection))

    def add(self, client: Client, done: tuple[Operation, ...], evidence: Evidence) -> None:
        """Add the operations of one command of a client, with their evidence; `TooManyClients`."""
        self.commands += evidence.count if done else 0
        for each in done:
            if not each.is_implied:
                self._add(_who(client), each, evidence)

    def _add(self, who: Who, operation: Operation, evidence: Evidence) -> None:
        if who not in self._whos:
            if len(self._whos) >= MAX_CLIENTS:
                raise TooManyClients(f"there are more than {MAX_CLIENTS} users in these captures")
            self._whos.add(who)
        names = named(operation)
        kind = (who, operation.act, tuple(names))
        any_name = self._any.get(kind, ())
        exact, loose = (
            tuple(ANY_NAME if key in any_name else shape_of(name, certain=is_exact) for key, name in names.items())
            for is_exact in (True, False)
        )
        families = self._found.setdefault(kind, {})
        family = families.get(loose)
        if family is None:
            family = families[loose] = NameFamily(no_evidence)
        family.find(exact, loose).add(evidence)
        if len(families) > MAX_SHAPES:
            self._widen(kind)

    def _widen(self, kind: _Kind) -> None:
        """Replace the names of one more kind of object with any name."""
        widened = self._any.get(kind, ())
        key = next(each for each in _WIDENED_IN_TURN if each in kind[2] and each not in widened)
        self._any[kind] = (*widened, key)
        place = kind[2].index(key)
        families: dict[tuple[Shape, ...], NameFamily[Evidence]] = {}
        for loose, before in self._found[kind].items():
            general = _with_any(loose, place)
            for exact, evidence in before.items():
                family = families.setdefault(general, NameFamily(no_evidence))
                family.find(_with_any(exact, place), general).add(evidence)
        self._found[kind] = families
        if len(families) > MAX_SHAPES:
            self._widen(kind)

    def entries(self) -> Iterator[Access]:
        """Yield all operations, ordered by client, act and names."""
        for kind in sorted(self._found):
            who, act, keys = kind
            is_widened = kind in self._any
            found = [(_patterns(keys, exact), evidence) for family in self._found[kind].values()
                     for exact, evidence in family.items()]  # fmt: skip
            for patterns, evidence in sorted(found, key=lambda each: each[0]):
                yield Access(who, act, patterns, evidence, is_widened)


def _with_any(shapes: tuple[Shape, ...], place: int) -> tuple[Shape, ...]:
    return (*shapes[:place], ANY_NAME, *shapes[place + 1 :])


def _patterns(keys: tuple[str, ...], shapes: tuple[Shape, ...]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (key, "*" if shape is ANY_NAME else pattern_of(shape)) for key, shape in zip(keys, shapes, strict=True)
    )


def named(operation: Operation) -> dict[str, str]:
    """Return the fewest object names by which a line of an access list can allow an operation.

    A routing key that is not known in advance is not named: a line that names one would not match.
    """
    names = {key: getattr(operation, key) for key in OBJECTS}
    if operation.act == "publish":
        if operation.exchange == "" and isinstance(operation.queue, str):
            return {"queue": operation.queue}
        del names["queue"]
    return {key: name for key, name in names.items() if name is not None and not isinstance(name, UnknownName)}


def _who(client: Client) -> Who:
    return Who(client.vhost, client.user, "" if client.user else client.address)


class ObservedAccess:
    """The client's operations on one connection, command by command, in the sense of access lists."""

    def __init__(self, stream: int, connection: str) -> None:
        self._client = Client.named(stream, connection)
        self._gatherer: Gatherer | None = None
        self._last_queues = LastQueues()

    def feed(self, decoded: DecodedFrames) -> Iterator[tuple[Client, Command, tuple[Operation, ...]]]:
        """Yield the client, the command and its operations for each client command that these frames complete.

        A command is represented as rules see it.
        """
        sender = Peer(decoded.sender)
        if self._gatherer is None:
            self._gatherer = GATHERERS[decoded.protocol](self._client)
        for command in self._gatherer.commands(decoded):
            method = command.method
            if isinstance(method, ChannelCloseOk):
                self._last_queues.forget(command.channel)
            elif sender is not CLIENT:
                if isinstance(method, QueueDeclareOk):
                    self._last_queues.name(command.channel, method.queue)
            else:
                is_about_last = self._last_queues.concerns(command)
                written_out = self._last_queues.written_out(command) if is_about_last else command
                if isinstance(method, QueueDeclare):
                    self._last_queues.note(command.channel, method)
                try:
                    yield self._gatherer.client, written_out, operations(written_out)
                except ProtocolError:
                    continue  # malformed table: the broker does not act on it either
