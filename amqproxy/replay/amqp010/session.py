"""One session of AMQP 0-10 that is played: as it was recorded, and as it is live."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TypeVar

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.command_ids import CommandIds
from amqproxy.amqp010.commands import ExecutionException, ExecutionResult, MessageSubscribe
from amqproxy.amqp010.domains import AcceptMode
from amqproxy.amqp010.sequence import MAX_RANGES, SequenceSet
from amqproxy.replay.deliveries import LiveDelivery

T = TypeVar("T")

MAX_KEPT = 1_000_000
"""Commands of a session whose counterparts are known; the oldest is forgotten first."""


class PlayedSubscription:
    """A subscription: the recorded name of its `queue`."""

    __slots__ = ("is_ending", "needs_accept", "queue")

    def __init__(self, queue: str, subscribe: MessageSubscribe) -> None:
        self.queue = queue
        self.needs_accept = subscribe.accept_mode != AcceptMode.NONE
        self.is_ending = False


class PlayedSession:
    """A session on a channel, from its session.attach on. Command ids are those of the recording, or live ones."""

    def __init__(self, number: int, name: bytes) -> None:
        self.number = number
        self.name = name
        self.is_attached = False
        self.is_over = False
        """Is nothing more to come from the live broker?"""
        self.is_ending = False
        """Has the recorded client detached, or closed the connection?"""
        self.is_end_recorded = False
        """Has the recorded broker ended it?"""
        self.is_exception_unsent = False
        """Was the command not sent for which the recorded broker has ended it?"""
        self.why_over = ""
        self.exception: ExecutionException | None = None
        # What the client sends.
        self.next_id = 0
        self.live_ids: OrderedDict[int, int] = OrderedDict()
        """Of recorded commands of the client, their live ids."""
        self.completed = CommandIds()
        """Live commands of the client that the live broker has completed."""
        self.settled: OrderedDict[int, str] = OrderedDict()
        """Live transfers of the client, and the command by which the live broker has settled each."""
        self.results: OrderedDict[int, ExecutionResult] = OrderedDict()
        self.seen = CommandIds()
        """Recorded commands of the client that the recorded broker has completed."""
        # What the broker sends.
        self.subscriptions: dict[str, PlayedSubscription] = {}
        self.deliveries: OrderedDict[int, LiveDelivery | None] = OrderedDict()
        """Of recorded transfers of the broker, the live ones that stand for them."""
        self.seen_deliveries = CommandIds()
        """Recorded transfers of the broker that the recorded client has completed."""
        self.open: dict[int, LiveDelivery] = {}
        """Live transfers of the broker, by their ids, that are not completed by us."""
        self.done = CommandIds()
        """Live commands of the broker that are completed by us."""

    def sent(self, recorded_id: int | None) -> int:
        """The live id of a command that is sent now."""
        live = self.next_id
        self.next_id += 1
        if recorded_id is not None:
            remember(self.live_ids, recorded_id, live)
        return live

    def complete(self, live_ids: Iterable[int]) -> SequenceSet:
        """All that is completed by us, with these."""
        for each in live_ids:
            self.done.extend(each, each + 1)
            self.open.pop(each, None)
        return set_of(self.done)

    def deliveries_of(self, ids: range) -> list[int]:
        """The recorded transfers of the broker with these ids, as far as live ones were waited for in their place."""
        if len(ids) <= len(self.deliveries):
            return [each for each in ids if each in self.deliveries]
        return [each for each in self.deliveries if each in ids]

    def newly_completed(self, ids: list[range]) -> list[int]:
        """The same of what the recorded client completes here for the first time: mostly it repeats all the rest."""
        new = CommandIds.of(ids)
        for each in self.seen_deliveries:
            new.remove(each)
        found = [recorded for each in new for recorded in self.deliveries_of(each)]
        for each in new:
            self.seen_deliveries.add(each)
        return found

    def is_completed(self, recorded_id: int) -> bool:
        """Has the live broker completed what stands for a recorded command, if anything does?"""
        live = self.live_ids.get(recorded_id)
        return live is None or live in self.completed


def remember(kept: OrderedDict[int, T], key: int, value: T) -> None:
    """Keep a value; the oldest is forgotten where there are too many."""
    kept[key] = value
    if len(kept) > MAX_KEPT:
        kept.popitem(last=False)


def ids_of(commands: SequenceSet | None) -> list[range]:
    """The ids in a set, as far as they do not begin anew behind the highest."""
    ranges = commands.ranges if commands is not None else ()
    return [range(first, last + 1) for first, last in ranges if first <= last]


def set_of(ids: CommandIds) -> SequenceSet:
    """The set of these; the last of them, where there are too many ranges."""
    return SequenceSet([(each.start, each.stop - 1) for each in ids][-MAX_RANGES:])


def has_lost_bytes(assembly: Assembly) -> bool:
    """Does the capture lack some of its bytes?"""
    return any(frame.lost for frame in assembly.frames)
