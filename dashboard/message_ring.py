"""The most recent messages of a source with their outcomes, as rows with permanent numbers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from amqproxy.amqp091.properties import NO_PROPERTIES
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.dashboard.missing_frames import MissingFrames
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.record import encoded
from amqproxy.taps.trace.events import (
    CommandMethod,
    MessageDelivered,
    MessageProperties,
    MessagePublished,
    MessageReturned,
    RequestAnswered,
    RequestSent,
    RequestUnanswered,
)

MAX_ROWS = 200_000
"""Maximum number of rows in a ring."""

FINDING = "finding"
"""The type of a row that is a finding."""

GAP = "gap"
"""The type of a row for frames of all connections that were lost."""

ROW_COST = 512
"""Approximate bytes of a row besides its JSON."""

CONTENT_COST = 1024
"""Approximate bytes of a command besides its body."""

ContentEvent: TypeAlias = MessagePublished | MessageDelivered | MessageReturned
RequestEvent: TypeAlias = RequestAnswered | RequestSent | RequestUnanswered


class Content(msgspec.Struct, frozen=True, gc=False):
    """The command of a message: the values that filters evaluate, and the part of its body that is kept.

    `frame` is the approximate row of the frame that completed it.
    """

    sender: Peer
    method: CommandMethod
    properties: MessageProperties = NO_PROPERTIES
    size: int = 0
    body: bytes = b""
    frame: int = 0

    @classmethod
    def of(cls, event: ContentEvent | RequestEvent, frame: int) -> Content:
        """Return the command of an event, received in the row `frame`."""
        if isinstance(event, MessagePublished | MessageDelivered | MessageReturned):
            sender = CLIENT if isinstance(event, MessagePublished) else SERVER
            return cls(sender, event.method, event.properties, event.size or 0, event.body, frame)
        if isinstance(event, RequestAnswered):
            return cls(event.sender, event.request or event.reply, frame=frame)
        return cls(event.sender, event.request, frame=frame)


class MessageRow(msgspec.Struct, frozen=True, gc=False):
    """A message or a finding, numbered `seq`; `frame` is the approximate row of its frame, `until` that of its outcome.

    `json` is its record as a line, `shown` the record with additions that only the page gets, if there are any. Lists
    and filters use the other fields. `came_at` is on the monotonic clock.
    """

    seq: int
    frame: int
    until: int
    came_at: float
    ts_ns: int
    stream: int
    connection: str
    channel: int | None
    type: str
    outcome: str
    code: int
    tags: tuple[str, ...]
    content: Content | None
    json: bytes
    cost: int
    shown: bytes = b""

    def message(self) -> MessageRecord | None:
        """Return the record of a message; `None` for a finding."""
        return None if self.type == FINDING else msgspec.json.decode(self.json, type=MessageRecord)

    def to_json(self) -> bytes:
        """Return the record's JSON object with the row numbers added."""
        return b'{"seq":%d,"frame":%d,"until_frame":%d,%b' % (
            self.seq,
            self.frame,
            self.until,
            (self.shown or self.json)[1:],
        )


class MessageRing:
    """Rows in at most `memory` bytes, and at most `rows` of them; the oldest are overwritten."""

    def __init__(self, memory: int, rows: int = MAX_ROWS, clock: Callable[[], float] = time.monotonic) -> None:
        self.memory = memory
        self.max_rows = rows
        self.rows: dict[int, MessageRow] = {}
        self.first_seq = self.next_seq = 0
        self.size = 0
        self.newest_ns = 0
        self._clock = clock

    @property
    def kept_since_ns(self) -> int | None:
        """Time before which rows are overwritten; `None` if all are kept."""
        return self.rows[self.first_seq].ts_ns if self.first_seq else None

    def append(
        self, record: MessageRecord | Finding, frame: int, content: Content | None = None, *, shown: bytes = b""
    ) -> MessageRow:
        """Append a message or a finding that the frame in the row `frame` completed."""
        json = record.to_json()
        type_, outcome, code = FINDING, "", 0
        tags: tuple[str, ...] = ()
        if isinstance(record, MessageRecord):
            type_, outcome, code, tags = record.type, record.outcome, record.code or 0, record.tags or ()
        row = MessageRow(
            seq=self.next_seq,
            frame=frame if content is None else content.frame,
            until=frame,
            came_at=self._clock(),
            ts_ns=record.ts_ns,
            stream=record.stream,
            connection=record.connection,
            channel=record.channel,
            type=type_,
            outcome=str(outcome),
            code=code,
            tags=tags,
            content=content,
            json=json,
            shown=shown,
            cost=ROW_COST + len(json) + len(shown) + (CONTENT_COST + len(content.body) if content else 0),
        )
        self.rows[row.seq] = row
        self.next_seq += 1
        self.size += row.cost
        self.newest_ns = record.ts_ns
        while (self.size > self.memory or len(self.rows) > self.max_rows) and len(self.rows) > 1:
            self.size -= self.rows.pop(self.first_seq).cost
            self.first_seq += 1
        return row

    def append_gap(self, missing: MissingFrames, frame: int) -> MessageRow:
        """Append one row for frames that were lost, of however many connections."""
        record = MessageRecord(
            ts_ns=missing.ts_ns,
            stream=missing.stream,
            connection="",
            type=GAP,
            outcome="unknown",
            reason=missing.reason,
        )
        shown = {} if missing.count is None else {**msgspec.to_builtins(record), "count": missing.count}
        return self.append(record, frame, shown=encoded(shown) if shown else b"")

    def snapshot(self) -> list[MessageRow]:
        """Return all rows as a list that a thread may read."""
        return list(self.rows.values())
