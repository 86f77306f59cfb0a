"""Where messages go that nobody asked to keep, when there are more of them than memory is for.

It outlives nothing: the file is emptied when it is opened, and no write is waited for.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from amqproxy.broker.message import Message
from amqproxy.broker.packing import pack, unpack

NAME = "transient.sqlite"


class Spill:
    """Messages by number. The caller's thread does the work; `sqlite3.Error` when the disk does not."""

    def __init__(self, directory: Path) -> None:
        path = directory / NAME
        path.unlink(missing_ok=True)
        self._connection = sqlite3.connect(path, isolation_level=None)
        path.chmod(0o600)
        self._connection.execute("pragma page_size = 16384")
        self._connection.execute("pragma journal_mode = off")
        self._connection.execute("pragma synchronous = off")
        self._connection.execute("pragma locking_mode = exclusive")
        self._connection.execute("create table message(number integer primary key, content blob not null)")
        self._last = 0

    def put(self, messages: Sequence[Message]) -> range:
        """Put messages away; their numbers, in their order."""
        numbers = range(self._last + 1, self._last + 1 + len(messages))
        rows = zip(numbers, map(pack, messages), strict=True)
        self._connection.executemany("insert into message values (?, ?)", rows)
        self._last = numbers.stop - 1
        return numbers

    def take(self, numbers: Iterable[int]) -> list[Message]:
        """Messages back, in the order of their numbers, which are free from now on."""
        wanted = (msgspec.json.encode(list(numbers)).decode(),)
        where = "from message where number in (select value from json_each(?))"
        found = self._connection.execute(f"select content {where} order by number", wanted).fetchall()
        self._connection.execute(f"delete {where}", wanted)
        return [unpack(content) for (content,) in found]

    def drop(self, numbers: Iterable[int]) -> None:
        """Messages are not wanted any more."""
        wanted = (msgspec.json.encode(list(numbers)).decode(),)
        self._connection.execute("delete from message where number in (select value from json_each(?))", wanted)

    def close(self) -> None:
        self._connection.close()
