"""The traced commands of a capture, on disk during a comparison: memory holds a part of them, whatever their size.

They are in a temporary file of about the capture's size, which is deleted with the store.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from amqproxy.capture.decoded import Decoded, DecodedProtocolHeader, StreamEnded
from amqproxy.comparison.alignment import Item
from amqproxy.comparison.command_tracer import CommandTracer
from amqproxy.comparison.dialects import NAMES
from amqproxy.comparison.latencies import Latencies
from amqproxy.comparison.traced_command import (
    CONNECTION,
    Identity,
    Latency,
    Outcome,
    PlacedCommand,
    Traced,
    TracedCommand,
    Track,
    digest_of,
)
from amqproxy.taps.message_recorder import SelectorOf

CACHE_KIB = 64 * 1024
"""Page cache of the database, in KiB."""

BATCH = 1000
"""Rows per write."""

MAX_CONNECTIONS = 100_000
"""Connections of one capture that are compared; those beyond are only counted."""

PROFILE = 64
"""Kinds of commands that a connection's profile distinguishes, with the names in them; as many again without."""

_SCHEMA = """
CREATE TABLE channels (id INTEGER PRIMARY KEY, connection INTEGER, number INTEGER, life INTEGER,
                       digest INTEGER, commands INTEGER, ts_ns INTEGER);
CREATE TABLE tracks (id INTEGER PRIMARY KEY, channel INTEGER, name TEXT);
CREATE TABLE commands (id INTEGER PRIMARY KEY, track INTEGER, place INTEGER, number INTEGER,
                       digest INTEGER, alike INTEGER, name INTEGER, content INTEGER, data BLOB);
CREATE TABLE outcomes (track INTEGER, is_return INTEGER, first INTEGER, last INTEGER, data BLOB);
"""

_INDEXES = """
CREATE INDEX channels_of ON channels (connection, id);
CREATE INDEX tracks_of ON tracks (channel, id);
CREATE INDEX commands_of ON commands (track, place, id);
CREATE INDEX outcomes_of ON outcomes (track, is_return, first);
"""

_DIGESTS = (1 << 63) - 1

_encode = msgspec.msgpack.Encoder().encode
_command = msgspec.msgpack.Decoder(TracedCommand).decode
_fields = msgspec.msgpack.Decoder(dict[str, Any]).decode


class StoredConnection(NamedTuple):
    """A connection of the capture.

    `digest` covers all its commands regardless of their order; `profile` counts them by kind, with the names in them
    and without.
    """

    stream: int
    connection: str
    ts_ns: int
    identity: Identity | None
    digest: int
    commands: int
    profile: dict[int, int]


class StoredChannel(NamedTuple):
    """A channel of a connection."""

    id: int
    number: int
    commands: int
    ts_ns: int


class _ChannelRow:
    """The channel that currently has a number."""

    __slots__ = ("commands", "digest", "id", "life", "tracks", "ts_ns")

    def __init__(self, id: int, life: int, ts_ns: int) -> None:
        self.id = id
        self.life = life
        self.ts_ns = ts_ns
        self.digest = self.commands = 0
        self.tracks: dict[str, int] = {}


class _ConnectionRow:
    """A connection whose commands are being stored."""

    __slots__ = ("channels", "commands", "digest", "identity", "profile", "tracer")

    def __init__(self, tracer: CommandTracer) -> None:
        self.tracer = tracer
        self.identity: Identity | None = None
        self.digest = self.commands = 0
        self.profile: dict[int, int] = {}
        self.channels: dict[int, _ChannelRow] = {}


class CommandStore:
    """The commands of all connections of a capture. `connections` are in the order in which they began.

    `latencies` are by kind; `omitted` counts the connections beyond `MAX_CONNECTIONS`.
    """

    def __init__(
        self, selector_of: SelectorOf | None = None, ignored: Collection[str] = (), *, selected_body: int = 0
    ) -> None:
        """Store the commands that `selector_of` selects, or all, without the fields that are `ignored`.

        A selector sees the first `selected_body` bytes of a body.
        """
        self._selected_body = selected_body
        self._selector_of = selector_of
        self._ignored = ignored
        self._open: dict[int, _ConnectionRow | None] = {}
        self._begun: dict[int, StoredConnection] = {}
        self.connections: list[StoredConnection] = []
        self.latencies: dict[str, Latencies] = {}
        self.omitted = 0
        self._database = sqlite3.connect("", isolation_level=None)  # a temporary file, which has no name
        self._database.executescript(
            f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-{CACHE_KIB}; PRAGMA temp_store=FILE;"
        )
        self._database.executescript(_SCHEMA)
        self._database.execute("BEGIN")
        self._ids = 0
        self._rows: list[tuple[Any, ...]] = []
        self._outcomes: list[tuple[Any, ...]] = []

    def close(self) -> None:
        """Delete the store, and free its disk space."""
        self._database.close()

    @property
    def commands(self) -> int:
        """Number of commands of all connections."""
        return sum(each.commands for each in self.connections)

    # --- writing

    def load(self, decoded: Iterable[Decoded]) -> None:
        """Store a whole capture; call this once."""
        for each in decoded:
            self.add(each)
        self.finish()

    def add(self, decoded: Decoded) -> None:
        """Store the next decoded part of a capture."""
        stream = decoded.stream
        row = self._open.get(stream)
        if row is None:
            row = self._begin(decoded)
            if row is None:
                return
        self._take(stream, row, row.tracer.feed(decoded))
        if isinstance(decoded, StreamEnded):
            del self._open[stream]
            self._begun[stream] = self._finished(self._begun[stream], row)

    def finish(self) -> None:
        """End the writing; the store can be read after this."""
        for stream, left in self._open.items():
            if left is not None:
                self._begun[stream] = self._finished(self._begun[stream], left)
        self._flush()
        self._database.execute("COMMIT")
        self._database.executescript(_INDEXES)
        self.connections = list(self._begun.values())

    def _begin(self, decoded: Decoded) -> _ConnectionRow | None:
        """Begin a connection; return None if it is not compared."""
        stream = decoded.stream
        if isinstance(decoded, StreamEnded):
            self._open.pop(stream, None)
            return None
        if stream in self._open or (isinstance(decoded, DecodedProtocolHeader) and decoded.protocol not in NAMES):
            return None
        if len(self._begun) >= MAX_CONNECTIONS:
            self.omitted += 1
            self._open[stream] = None
            return None
        selector = self._selector_of(stream, decoded.connection) if self._selector_of else None
        row = self._open[stream] = _ConnectionRow(
            CommandTracer(selector, ignored=self._ignored, selected_body=self._selected_body)
        )
        self._begun[stream] = StoredConnection(stream, decoded.connection, decoded.ts_ns, None, 0, 0, {})
        return row

    def _take(self, stream: int, row: _ConnectionRow, traced: list[Traced]) -> None:
        for each in traced:
            if isinstance(each, PlacedCommand):
                self._add_command(stream, row, each)
            elif isinstance(each, Outcome):
                track = self._track(stream, row, each.track, 0)
                self._outcomes.append((track, each.is_return, each.first, each.last, _encode(each.fields)))
            elif isinstance(each, Latency):
                self.latencies.setdefault(each.kind, Latencies()).add(each.ns, each.commands)
            else:
                row.identity = each
        if len(self._rows) >= BATCH or len(self._outcomes) >= BATCH:
            self._flush()

    def _add_command(self, stream: int, row: _ConnectionRow, placed: PlacedCommand) -> None:
        command = placed.command
        track = self._track(stream, row, placed.track, command.ts_ns)
        digest, alike, name, content = command.digests()
        channel = row.channels[placed.track.channel]
        channel.digest = (channel.digest + digest) & _DIGESTS
        channel.commands += 1
        row.digest = (row.digest + digest) & _DIGESTS
        for kind in (alike % PROFILE, PROFILE + name % PROFILE):
            row.profile[kind] = row.profile.get(kind, 0) + 1
        row.commands += 1
        self._rows.append((track, placed.place, placed.number, digest, alike, name, content, _encode(command)))

    def _track(self, stream: int, row: _ConnectionRow, track: Track, ts_ns: int) -> int:
        channel = row.channels.get(track.channel)
        if channel is None or channel.life != track.life:
            if channel is not None:
                self._write_channel(stream, track.channel, channel)
            self._ids += 1
            channel = row.channels[track.channel] = _ChannelRow(self._ids, track.life, ts_ns)
        found = channel.tracks.get(track.name)
        if found is None:
            self._ids += 1
            found = channel.tracks[track.name] = self._ids
            self._database.execute("INSERT INTO tracks VALUES (?, ?, ?)", (found, channel.id, track.name))
        return found

    def _write_channel(self, stream: int, number: int, channel: _ChannelRow) -> None:
        values = (channel.id, stream, number, channel.life, channel.digest, channel.commands, channel.ts_ns)
        self._database.execute("INSERT INTO channels VALUES (?, ?, ?, ?, ?, ?, ?)", values)

    def _finished(self, connection: StoredConnection, row: _ConnectionRow) -> StoredConnection:
        for number, channel in row.channels.items():
            self._write_channel(connection.stream, number, channel)
        return connection._replace(identity=row.identity, digest=row.digest, commands=row.commands, profile=row.profile)

    def _flush(self) -> None:
        self._database.executemany(
            "INSERT INTO commands (track, place, number, digest, alike, name, content, data) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            self._rows,
        )
        self._database.executemany("INSERT INTO outcomes VALUES (?, ?, ?, ?, ?)", self._outcomes)
        self._rows.clear()
        self._outcomes.clear()

    # --- reading

    def channels(self, stream: int) -> Iterator[Item]:
        """Yield the channels of a connection, in the order in which they were opened; `ref` is for `channel`."""
        query = "SELECT digest, number, id FROM channels WHERE connection = ? ORDER BY id"
        for digest, number, id in self._database.execute(query, (stream,)):
            yield Item(digest_of((digest, number)), number, number != CONNECTION, id)

    def channel(self, id: int) -> StoredChannel:
        """Return a channel by its `ref`."""
        query = "SELECT id, number, commands, ts_ns FROM channels WHERE id = ?"
        return StoredChannel(*self._database.execute(query, (id,)).fetchone())

    def tracks(self, channel: int) -> dict[str, int]:
        """Return the tracks of a channel by their names, for `items`."""
        query = "SELECT name, id FROM tracks WHERE channel = ? ORDER BY id"
        return dict(self._database.execute(query, (channel,)).fetchall())

    def items(self, track: int) -> Iterator[Item]:
        """Yield the commands of a track in their order, with their outcomes; `ref` is for `command`."""
        settled, returned = _Sought(self._outcomes_of(track, 0)), _Sought(self._outcomes_of(track, 1))
        query = "SELECT digest, alike, name, id, content, number FROM commands WHERE track = ? ORDER BY place, id"
        for digest, alike, name, id, content, number in self._database.execute(query, (track,)):
            if number is not None:
                digest = digest_of((digest, settled.find(number), returned.find(number)))
            yield Item(digest, alike, name, id, content)

    def _outcomes_of(self, track: int, is_return: int) -> Iterator[tuple[int, int, bytes]]:
        query = "SELECT first, last, data FROM outcomes WHERE track = ? AND is_return = ? ORDER BY first"
        return iter(self._database.execute(query, (track, is_return)))

    def command(self, ref: int) -> TracedCommand:
        """Return a command by its `ref`, with its outcome."""
        query = "SELECT data, track, number FROM commands WHERE id = ?"
        data, track, number = self._database.execute(query, (ref,)).fetchone()
        command = _command(data)
        if number is None:
            return command
        fields = command.fields
        for is_return in (0, 1):
            query = (
                "SELECT data, last FROM outcomes WHERE track = ? AND is_return = ? AND first <= ? "
                "ORDER BY first DESC LIMIT 1"
            )
            found = self._database.execute(query, (track, is_return, number)).fetchone()
            if found is not None and found[1] >= number:
                fields = fields | _fields(found[0])
        return msgspec.structs.replace(command, fields=fields)


class _Sought:
    """A look-up of ascending numbers in ascending ranges."""

    __slots__ = ("_current", "_ranges")

    def __init__(self, ranges: Iterator[tuple[int, int, bytes]]) -> None:
        self._ranges = ranges
        self._current = next(ranges, None)

    def find(self, number: int) -> bytes | None:
        current = self._current
        while current is not None and current[1] < number:
            current = self._current = next(self._ranges, None)
        return current[2] if current is not None and current[0] <= number else None
