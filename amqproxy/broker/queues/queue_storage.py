"""Where durable queues find their lanes, and what those hold from before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from amqproxy.broker.queues.paged_messages import Fetch
from amqproxy.broker.storage.batch import LogOwner
from amqproxy.broker.storage.journal import Journal
from amqproxy.broker.storage.message_log import MessageLog

Times = Callable[[int], Iterable[tuple[int, float]]]
"""The positions in a lane, by its number, and when each message expires: all of them, and so without the messages."""


class QueueStorage:
    """A journal that the model writes, and how to read what an earlier one has left."""

    def __init__(self, journal: Journal, fetch: Fetch, times: Times = lambda lane: ()) -> None:
        self.journal = journal
        self.fetch = fetch
        self.times = times

    def lane(self, vhost: str, queue: str, priority: int) -> MessageLog:
        """The lane of a queue's messages of one priority."""
        return self.journal.lane(LogOwner("queue", vhost, queue, priority))

    def priorities(self, vhost: str, queue: str, highest: int) -> Sequence[int]:
        """Those in which messages wait from before, and 0; the highest first."""
        lanes = self.journal.lanes
        return [each for each in range(highest, 0, -1) if LogOwner("queue", vhost, queue, each) in lanes] + [0]

    def octets(self, vhost: str, queue: str, highest: int) -> int:
        """What the bodies of these messages come to."""
        found = (self.journal.lanes.get(LogOwner("queue", vhost, queue, each)) for each in range(highest + 1))
        return sum(lane.octets for lane in found if lane is not None)
