"""Counts of the broker's objects since an earlier sample: only of those that have changed.

A sample costs a look at each object, and a row for each that changed. The broker keeps the numbers that it saw last
with each object that ever changed, so that any number of management APIs can ask; their history is theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from amqproxy.broker.broker import Broker
from amqproxy.broker.message_counts import MessageCounts
from amqproxy.broker.server.served_connection import ServedConnection
from amqproxy.control.dialects import broker_dialect
from amqproxy.peer import CLIENT, SERVER

LOOKED_AT = 256
"""Objects that are looked at before other tasks have their turn."""

Row = tuple[str, str, str, bool, tuple[int, ...]]
"""Kind, virtual host, name, whether no sample had it before, and numbers.

Those of queues and virtual hosts begin with ready and unacknowledged messages.
"""


class Samples:
    """The numbers of a broker's objects as they were last seen; `revision` counts the samples."""

    def __init__(self, broker: Broker, served: Mapping[int, ServedConnection]) -> None:
        self._broker = broker
        self._served = served
        self._seen: dict[tuple[str, str], tuple[int, int, tuple[int, ...]]] = {}
        """By kind and name, the samples in which an object was seen and has changed, and its numbers."""
        self.revision = 0

    def since(self, revision: int) -> Iterator[Row | int | None]:
        """Yield this sample's revision, then a row for each object that changed after `revision`; None to rest."""
        self.revision += 1
        now = self.revision
        yield now
        whole = (*self._broker.events.churn.values(), *self._broker.disk_counts)
        yield from self._changed("overview", "", whole, revision)
        for vhost in list(self._broker.vhosts.values()):
            ready = unacked = 0
            for number, queue in enumerate(list(vhost.queues.values()), 1):
                ready += queue.message_count
                unacked += queue.unacked
                state = (queue.counts.activity, queue.message_count, queue.unacked)
                before = queue.sampled
                if state != before[1]:
                    queue.sampled = (now, state)
                if queue.sampled[0] > revision:
                    numbers = (*state[1:], *queue.counts.values())
                    yield ("queues", vhost.name, queue.name, not before[0], numbers)
                if not number % LOOKED_AT:
                    yield None
            for number, exchange in enumerate(list(vhost.exchanges.values()), 1):
                counts: MessageCounts = exchange.counts
                activity = counts.activity
                last, known = exchange.sampled
                if activity != known:
                    exchange.sampled = (now, activity)
                if exchange.sampled[0] > revision:
                    yield ("exchanges", vhost.name, exchange.name, not last, (counts.published, counts.routed))
                if not number % LOOKED_AT:
                    yield None
            yield from self._changed("vhosts", vhost.name, (ready, unacked, *vhost.counts.values()), revision)
            yield None
        for served in list(self._served.values()):
            yield from self._of_client(served, revision)
            yield None
        for gone in [key for key, (seen, _, _) in self._seen.items() if seen < now]:
            del self._seen[gone]

    def _of_client(self, served: ServedConnection, revision: int) -> Iterator[Row]:
        connection = served.other or served.connection
        if connection.vhost is None or connection.is_over:
            return
        if served.tap is not None:
            octets = (served.tap.byte_counts[CLIENT], served.tap.byte_counts[SERVER])
            yield from self._changed("connections", served.listed_name, octets, revision)
        for number, counts in broker_dialect(connection).counts(connection):
            name = f"{served.listed_name} ({number})"
            yield from self._changed("channels", name, counts, revision)

    def _changed(self, kind: str, name: str, numbers: tuple[int, ...], revision: int) -> Iterator[Row]:
        _, last, known = self._seen.get((kind, name), (0, 0, ()))
        changed = last if numbers == known else self.revision
        self._seen[kind, name] = self.revision, changed, numbers
        if changed > revision:
            yield (kind, "", name, not last, numbers)
