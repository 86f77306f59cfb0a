"""Records of the open messages of one connection, whose outcome is not known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.trace.events import DeliveriesSettled, PublishesSettled, Settlement

MAX_PENDING_MESSAGES = 4096
"""Limit on the open messages of one connection; beyond it, the oldest is reported as pending, and forgotten."""

PATIENCE_NS = 5_000_000_000
"""Time in nanoseconds after which a live report shows an open message as pending."""

RECORD_COST = 1024
"""Approximate memory of a record, in bytes, in addition to its texts and tables."""


class PendingBudget:
    """Budget in bytes of the open messages of all recorders that share it."""

    __slots__ = ("left",)

    def __init__(self, most: int = 1 << 28) -> None:
        self.left = most


class PendingMessages:
    """Records of open publishes and of open deliveries, by channel and number.

    A record must not be changed while it is kept, except in its outcome.
    """

    def __init__(self, budget: PendingBudget) -> None:
        self._budget = budget
        self._published: dict[int, dict[int, MessageRecord]] = {}
        self._delivered: dict[int, dict[int, MessageRecord]] = {}
        self._count = 0

    def add_publish(self, number: int, record: MessageRecord) -> list[MessageRecord]:
        """Keep a publish; return the messages forgotten to make room, as pending."""
        return self._add(self._published, number, record)

    def add_delivery(self, tag: int, record: MessageRecord) -> list[MessageRecord]:
        """Keep a delivery; return the messages forgotten to make room, as pending."""
        return self._add(self._delivered, tag, record)

    def find_publish(self, channel: int, number: int | None) -> MessageRecord | None:
        return self._published.get(channel, {}).get(number or 0)

    def settle_publishes(self, event: PublishesSettled) -> list[MessageRecord]:
        """Remove and return the publishes in the event's spans, with their outcome."""
        return self._settle(self._published, event)

    def settle_deliveries(self, event: DeliveriesSettled, *, requeue: bool | None) -> list[MessageRecord]:
        """Remove and return the deliveries in the event's spans, with their outcome."""
        settled = self._settle(self._delivered, event)
        if requeue is not None:
            for record in settled:
                record.requeue = requeue
        return settled

    def overdue(self, now_ns: int) -> list[MessageRecord]:
        """Return the messages that have been open for long as pending, each once; its outcome is reported later."""
        overdue = []
        for open_messages in self._open_messages():
            for record in open_messages.values():
                if now_ns - record.ts_ns < PATIENCE_NS:
                    break  # they are ordered by time
                if not record.outcome:
                    record.outcome = "pending"
                    overdue.append(msgspec.structs.replace(record))
        return overdue

    def all(self) -> list[MessageRecord]:
        """Return all open messages as pending; this does not affect later reports."""
        return [
            msgspec.structs.replace(record, outcome="pending")
            for open_messages in self._open_messages()
            for record in open_messages.values()
        ]

    def _open_messages(self) -> Iterable[dict[int, MessageRecord]]:
        yield from self._published.values()
        yield from self._delivered.values()

    def _add(
        self, by_channel: dict[int, dict[int, MessageRecord]], number: int, record: MessageRecord
    ) -> list[MessageRecord]:
        channel = record.channel or 0
        budget, cost = self._budget, cost_of(record)
        given_up: list[MessageRecord] = []
        while self._count and (self._count >= MAX_PENDING_MESSAGES or budget.left < cost):
            open_messages = next(each for each in (by_channel.get(channel), *self._open_messages()) if each)
            oldest = open_messages.pop(next(iter(open_messages)))
            self._forget(oldest)
            if not oldest.outcome:
                oldest.outcome = "pending"
                given_up.append(oldest)
        by_channel.setdefault(channel, {})[number] = record
        self._count += 1
        budget.left -= cost
        return given_up

    def _forget(self, record: MessageRecord) -> None:
        self._count -= 1
        self._budget.left += cost_of(record)

    def _settle(
        self, by_channel: dict[int, dict[int, MessageRecord]], event: PublishesSettled | DeliveriesSettled
    ) -> list[MessageRecord]:
        open_messages = by_channel.get(event.channel)
        if not open_messages:
            return []
        settled = []
        for span in event.spans:
            for number in span.among(open_messages):
                record = open_messages.pop(number, None)
                if record is None:
                    continue
                self._forget(record)
                record.outcome = event.outcome
                if event.outcome not in (Settlement.OPEN, Settlement.UNKNOWN):
                    record.seconds = (event.ts_ns - record.ts_ns) / 1e9
                settled.append(record)
        if not open_messages:
            del by_channel[event.channel]
        return settled


def cost_of(record: MessageRecord) -> int:
    """Return the approximate memory of a record, in bytes."""
    cost = RECORD_COST + _size(record.body)
    for each in (record.properties, record.arguments, record.reply_arguments):
        cost += 32 if each is None else _size(each)
    return cost


def _size(value: Any) -> int:
    kind = type(value)
    if kind is str:
        return 64 + len(value)
    if kind is dict:
        size = 256
        for name, each in value.items():
            size += 64 + len(name) + _size(each)
        return size
    if kind is list:
        return 64 + sum(map(_size, value))
    return 32
