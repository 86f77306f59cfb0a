"""One 0-10 session that is played: its recorded and its live state."""

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
"""Commands of a session whose counterparts are remembered; the oldest is forgotten first."""


class PlayedSubscription:
    """A subscription that was started; `queue` is the recorded name."""

    __slots__ = ("is_ending", "needs_accept", "queue")

    def __init__(self, queue: str, subscribe: MessageSubscribe) -> None:
        self.queue = queue
        self.needs_accept = subscribe.accept_mode != AcceptMode.NONE
        self.is_ending = False


class PlayedSession:
    """A session on a channel, from its session.attach on. Command ids are recorded or live, as each attribute says."""

    def __init__(self, number: int, name: bytes) -> None:
        self.number = number
        self.name = name
        self.is_attached = False
        self.is_over = False
        """Whether the live session has ended."""
        self.is_ending = False
        """Whether the recorded client has detached the session, or closed the connection."""
        self.is_end_recorded = False
        """Whether the recorded broker has ended the session."""
        self.is_exception_unsent = False
        """Whether the command that made the recorded broker end the session was not sent."""
        self.why_over = ""
        self.exception: ExecutionException | None = None
        # The client's commands.
        self.next_id = 0
        self.live_ids: OrderedDict[int, int] = OrderedDict()
        """Live ids of the client's recorded commands."""
        self.completed = CommandIds()
        """Live commands of the client that the live broker has completed."""
        self.settled: OrderedDict[int, str] = OrderedDict()
        """Live transfers of the client, and the command by which the live broker has settled each."""
        self.results: OrderedDict[int, ExecutionResult] = OrderedDict()
        self.seen = CommandIds()
        """Recorded commands of the client that the recorded broker has completed."""
        # The broker's commands.
        self.subscriptions: dict[str, PlayedSubscription] = {}
        self.deliveries: OrderedDict[int, LiveDelivery | None] = OrderedDict()
        """Live counterparts of the broker's recorded transfers; None for one that did not come."""
        self.seen_deliveries = CommandIds()
        """Recorded transfers of the broker that the recorded client has completed."""
        self.open: dict[int, LiveDelivery] = {}
        """Live transfers of the broker, by their ids, that the player has not completed."""
        self.probes: dict[str, int] = {}
        """Live ids of the queries whether the queues of restored subscriptions exist."""
        self.done = CommandIds()
        """Live commands of the broker that the player has completed."""

    def sent(self, recorded_id: int | None) -> int:
        """Return the live id of a command that is about to be sent."""
        live = self.next_id
        self.next_id += 1
        if recorded_id is not None:
            remember(self.live_ids, recorded_id, live)
        return live

    def complete(self, live_ids: Iterable[int]) -> SequenceSet:
        """Complete commands of the broker; return all that are completed, these included."""
        for each in live_ids:
            self.done.extend(each, each + 1)
            self.open.pop(each, None)
        return set_of(self.done)

    def deliveries_of(self, ids: range) -> list[int]:
        """Return the broker's recorded transfers with these ids whose live counterparts have been awaited."""
        if len(ids) <= len(self.deliveries):
            return [each for each in ids if each in self.deliveries]
        return [each for each in self.deliveries if each in ids]

    def newly_completed(self, ids: list[range]) -> list[int]:
        """Return those transfers that the recorded client completes here for the first time.

        A session.completed usually repeats all earlier ids.
        """
        new = CommandIds.of(ids)
        for each in self.seen_deliveries:
            new.remove(each)
        found = [recorded for each in new for recorded in self.deliveries_of(each)]
        for each in new:
            self.seen_deliveries.add(each)
        return found

    def is_completed(self, recorded_id: int) -> bool:
        """Whether the live broker has completed the counterpart of a recorded command, or there is none."""
        live = self.live_ids.get(recorded_id)
        return live is None or live in self.completed


def remember(kept: OrderedDict[int, T], key: int, value: T) -> None:
    """Keep a value; beyond `MAX_KEPT`, forget the oldest one."""
    kept[key] = value
    if len(kept) > MAX_KEPT:
        kept.popitem(last=False)


def ids_of(commands: SequenceSet | None) -> list[range]:
    """Return the id ranges of a set, without those that wrap around behind the highest id."""
    ranges = commands.ranges if commands is not None else ()
    return [range(first, last + 1) for first, last in ranges if first <= last]


def set_of(ids: CommandIds) -> SequenceSet:
    """Return the set of these ids, cut to the last `MAX_RANGES` ranges."""
    return SequenceSet([(each.start, each.stop - 1) for each in ids][-MAX_RANGES:])


def has_lost_bytes(assembly: Assembly) -> bool:
    """Whether the capture lacks bytes of an assembly."""
    return any(frame.lost for frame in assembly.frames)
