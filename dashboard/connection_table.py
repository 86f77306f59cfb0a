"""List of a source's connections with versions, so that readers are sent only what has changed."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from amqproxy.control.client_name import client_name
from amqproxy.dashboard.connections import SeenConnection
from amqproxy.dashboard.party import host_of

REFRESH = 1.0
"""Seconds for which the list is shared by all readers before the proxy is asked again."""

MAX_GONE = 20_000
"""Maximum number of forgotten connections that are reported; a reader who missed more gets the whole list."""

COUNTED = ("state", "blocked", "channels", "consumers", "from_client", "from_server")
"""Fields of a connection that change all the time, in the order in which they are sent."""


class ConnectionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A connection in the list: `facts` seldom change, `counters` are the values of `COUNTED`."""

    number: int
    is_open: bool
    facts: dict[str, Any]
    counters: tuple[Any, ...]


def connection_row(seen: SeenConnection | None, entry: dict[str, Any] | None) -> ConnectionRow:
    """Return the row of a connection: from the proxy's entry if it is open, else from the observed traffic."""
    if entry is not None:
        counters = [entry.get(name) for name in COUNTED[:4]]
        number, name, sent = entry["session"], entry.get("name"), entry.get("bytes") or {}
        known = {each: entry.get(each) for each in ("connection", "protocol", "user", "vhost", "upstream")}
        known["since"] = entry.get("connected_at")
        known["product"] = _joined(entry.get("product"), entry.get("product_version"))
        if not known["protocol"] and seen is not None and seen.connection == entry.get("connection"):
            known["protocol"] = seen.protocol
        is_open = True
    else:
        assert seen is not None
        handshake = seen.handshake or {}
        properties = handshake.get("client_properties") or {}
        is_open, number, name, sent = seen.is_open, seen.stream, client_name(properties), seen.bytes
        counters = ["open" if is_open else "closed", seen.is_blocked, seen.channels, None]
        known = {
            "connection": seen.connection,
            "protocol": seen.protocol,
            "user": handshake.get("user"),
            "vhost": handshake.get("virtual_host"),
            "since": None if seen.is_joined else seen.since_ns / 1e9,
            "product": _joined(
                properties.get("product"), properties.get("version", properties.get("qpid.client_version"))
            ),
            "end": None if seen.end is None else _without_cause(seen),
            "ended": seen.ended,
        }
    facts = {key: value for key, value in known.items() if value is not None and value != ""}
    connection = str(facts.get("connection", ""))
    facts |= {"session": number, "name": name or "", "client": name or host_of(connection), "is_open": is_open}
    return ConnectionRow(
        number=number, is_open=is_open, facts=facts, counters=(*counters, sent.get("client"), sent.get("server"))
    )


def _joined(*words: object) -> str:
    return " ".join(str(each) for each in words if each)


def _without_cause(seen: SeenConnection) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(seen.end)
    del found["cause"]
    return found


class _Kept:
    __slots__ = ("changed", "counted", "row")

    def __init__(self, row: ConnectionRow, version: int) -> None:
        self.row = row
        self.changed = self.counted = version


class ConnectionTable:
    """Rows of one source, each with the version in which its facts and its counters last changed.

    Hold the `lock` to update it. Versions begin with the time, so that those of an earlier process are lower.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.lock = asyncio.Lock()
        self.version = time.time_ns() // 1000
        self._clock = clock
        self._updated_at: float | None = None
        self._rows: dict[int, _Kept] = {}
        self._gone: deque[tuple[int, int]] = deque()
        self._whole_since = self.version
        """Oldest version since which all forgotten connections are in `_gone`."""

    def is_old(self) -> bool:
        """Whether the rows are older than `REFRESH`."""
        return self._updated_at is None or self._clock() - self._updated_at >= REFRESH

    def update(self, rows: Iterable[ConnectionRow]) -> None:
        """Take the current rows, and note which have changed."""
        version = self.version + 1
        missing = set(self._rows)
        for row in rows:
            missing.discard(row.number)
            kept = self._rows.get(row.number)
            if kept is None:
                self._rows[row.number] = _Kept(row, version)
                continue
            if kept.row.facts != row.facts:
                kept.changed = version
            elif kept.row.counters != row.counters:
                kept.counted = version
            kept.row = row
        for number in missing:
            del self._rows[number]
            self._gone.append((version, number))
        while len(self._gone) > MAX_GONE:
            self._whole_since = self._gone.popleft()[0]
        self.version = version
        self._updated_at = self._clock()

    def changes(self, after: int, *, closed: bool) -> dict[str, Any]:
        """Return the changes since the version `after`; without `closed`, closed connections count as gone."""
        is_whole = not self._whole_since <= after <= self.version
        if is_whole:
            after = 0
        changed, counters, open_count = [], [], 0
        gone = [] if is_whole else [number for version, number in self._gone if version > after]
        for number, kept in self._rows.items():
            row = kept.row
            open_count += row.is_open
            if not row.is_open and not closed:
                if kept.changed > after and not is_whole:
                    gone.append(number)
            elif kept.changed > after:
                changed.append({**row.facts, **dict(zip(COUNTED, row.counters, strict=True))})
            elif kept.counted > after:
                counters.append((number, *row.counters))
        return {
            "version": self.version,
            "is_whole": is_whole,
            "open": open_count,
            "closed": len(self._rows) - open_count,
            "connections": changed,
            "counted": COUNTED,
            "counters": counters,
            "gone": gone,
        }
