"""What is to outlive the broker, noted down while the model works: values, and no input or output.

The model tells a `Lane` of each persistent message that it lets wait, hands out and settles, and the `Journal` of all
else that is durable. `take` gives what has gathered since, as a numbered `Batch` for the store, and `committed` hears
that it is on the disk. What comes and goes between two batches is in neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from amqproxy.broker.events import EventDispatcher
from amqproxy.broker.message import Message
from amqproxy.broker.storage.definition_records import DefinitionRecord
from amqproxy.broker.work import Container, Job, WorkQueue

T = TypeVar("T")

NEVER = float("inf")

POSITION_BITS = 43
MAX_POSITION = (1 << POSITION_BITS) - 1
"""At 100,000 messages a second, one lane lasts for nearly three years."""

MAX_LANES = (1 << (63 - POSITION_BITS)) - 1

MAX_PENDING = 64 * 1024 * 1024
"""Octets that may wait for the disk; beyond them, nothing more is to be read from publishers."""

EMBEDDED = 4096
"""Octets of a body up to which each queue has its own copy on the disk; longer ones are shared."""

ENTRY_COST = 256
"""Octets that a row without its body is taken to cost, while it waits."""

SETTLEMENT_COST = 40


def _nothing() -> None:
    """Nothing is to be done."""


class Owner(NamedTuple):
    """Whose messages a lane holds: those of one priority of a "queue", or what an "exchange" delays."""

    kind: str
    vhost: str
    name: str
    priority: int = 0


class Pledge:
    """Messages that somebody is to be told of when all of them are safe: on the disk, or done with before that.

    `left` counts those that are not; `call` is called when none is. `acks` and `last` are for its owner: how many
    publishes are then to be acked, and the last one's number.
    """

    __slots__ = ("acks", "call", "is_refused", "last", "left")

    def __init__(self) -> None:
        self.left = 0
        self.acks = 0
        self.last = 0
        self.is_refused = False
        """Can one of them never be safe?"""
        self.call: Callable[[], None] | None = None

    def used(self) -> None:
        """One of the messages was wanted, and the disk has never heard of it."""
        self.left -= 1
        if not self.left and self.call is not None:
            self.call()

    def kept(self) -> None:
        """Whatever was left is on the disk."""
        if self.left:
            self.left = 0
            if self.call is not None:
                self.call()


class Row(NamedTuple):
    """A message in its place. `expires_at` is in the wall clock's seconds, `shared` the number of its body, or None."""

    id: int
    size: int
    expires_at: float | None
    shared: int | None
    message: Message
    pledge: Pledge | None = None


class Cleared(NamedTuple):
    """All rows from `first` to `last` are gone, but for those at the positions in `kept`, `first` being at 0."""

    first: int
    last: int
    kept: tuple[int, ...] = ()


class State(NamedTuple):
    """How a lane stands: how many messages it has, and octets of their bodies; the last position it has seen, and the
    last that was handed out. A restart needs no more than this to open it.
    """

    number: int
    messages: int
    octets: int
    last: int
    delivered: int


class Returned(NamedTuple):
    """How often a message has come back, and which of those in its lane that wait again it is, from 1; 0 for none."""

    delivery_count: int
    turn: int


class Batch(NamedTuple):
    """What the store writes at once, or not at all; in this order."""

    number: int
    octets: int
    lanes_deleted: list[int]
    cleared: list[Cleared]
    lanes_created: dict[int, Owner]
    rows: list[Row]
    bodies: dict[int, Message]
    settled: list[int]
    bodies_dropped: list[int]
    lanes: list[State]
    delivery_counts: dict[int, Returned]
    durables: dict[str, DefinitionRecord | None]
    refused: list[Refusal]
    """What cannot be written, whatever the disk does: the store's to fill, and empty until then."""

    @property
    def is_empty(self) -> bool:
        return not any(self[2:])


class Refusal(NamedTuple):
    """What of a batch can never be written: a message by its id, or a definition by its key."""

    what: int | str
    error: Exception


class Lane:
    """One line of messages, first in, first out. Positions only ever rise; `last` is the highest that has been seen.

    The model tells it only of persistent messages, and only where they wait in something durable. `messages` is how
    many there are, `octets` what their bodies come to, and `delivered_to` the highest position that was handed out.
    """

    __slots__ = (
        "_cleared",
        "_counts",
        "_first",
        "_is_noted",
        "_rows",
        "_rows_octets",
        "_settled",
        "delivered_to",
        "journal",
        "last",
        "messages",
        "number",
        "octets",
        "owner",
        "refused",
        "shared",
    )

    def __init__(self, journal: Journal, owner: Owner, state: State) -> None:
        self.owner = owner
        self.number, self.messages, self.octets, self.last, self.delivered_to = state
        self.journal = journal
        self._first = self.number << POSITION_BITS
        self._is_noted = False
        self._rows: dict[int, Row] = {}
        self._rows_octets = 0
        """What `_rows` count as, of what waits for the disk."""
        self._settled: list[int] = []
        self._counts: dict[int, Returned] = {}
        self._cleared: Cleared | None = None
        self.refused: set[int] = set()
        """Positions of messages that the store has refused: they are in memory alone."""
        self.shared: dict[int, int] = {}
        """The rows that have a body which others may have, and its number."""

    def enqueued(self, position: int, message: Message, expires_at: float = NEVER) -> None:
        """A message waits at a position above all others; `expires_at` is in the model's seconds."""
        journal = self.journal
        pledge = journal.pledge
        if pledge is not None:
            pledge.left += 1
        id_ = self._first + position
        size = len(message.body)
        self._rows[id_] = Row(
            id_,
            size,
            None if expires_at == NEVER else expires_at + journal.epoch,
            None if size <= EMBEDDED else journal.share(self, id_, message),
            message,
            pledge,
        )
        self.last = position
        self.messages += 1
        self.octets += size
        journal.rows += 1
        journal.octets += size + ENTRY_COST
        self._rows_octets += size + ENTRY_COST
        if not self._is_noted:
            self._note()

    def delivered(self, position: int) -> None:
        """A message has been handed out, as have all before it: should it be found again, it is redelivered."""
        if position > self.delivered_to:
            self.delivered_to = position
            if not self._is_noted:
                self._note()

    def returned(self, position: int, delivery_count: int, turn: int = 0) -> None:
        """A message has come back so many times; `turn` is its place among those that wait to be handed out again."""
        self._counts[self._first + position] = Returned(delivery_count, turn)
        if not self._is_noted:
            self._note()

    def settled(self, position: int, size: int, *, is_used: bool = True) -> None:
        """A message is done with, whose body has so many octets.

        Unless it was used for what it was meant, what becomes of it instead is to be on the disk first.
        """
        journal = self.journal
        id_ = self._first + position
        self.messages -= 1
        self.octets -= size
        row = self._rows.pop(id_, None)
        if row is None:
            self._settled.append(id_)
            journal.octets += SETTLEMENT_COST
        else:
            journal.octets -= row.size + ENTRY_COST
            self._rows_octets -= row.size + ENTRY_COST
            journal.spared += 1
            if size > EMBEDDED:
                journal.unsee(row)
            if is_used and row.pledge is not None:
                row.pledge.used()
        if self._counts:
            self._counts.pop(id_, None)
        if self.refused:
            self.refused.discard(position)
        if self.shared and (number := self.shared.pop(id_, None)) is not None:
            journal.unshare(number)
        if not self._is_noted:
            self._note()

    def purged(self, kept: Mapping[int, int] = MappingProxyType({})) -> None:
        """All messages so far are done with, but for those which somebody still holds: their sizes by position."""
        self.journal.defined()
        self._clear_all(kept)
        self.messages = len(kept)
        self.octets = sum(kept.values())

    def trimmed(self, position: int, messages: int, octets: int) -> None:
        """All messages up to a position are done with, and so many remain: a log loses its tail."""
        last, rows = self._first + position, self._rows
        for id_ in [id_ for id_ in rows if id_ <= last]:
            self._count_rows(-(rows.pop(id_).size + ENTRY_COST))
        self._counts = {id_: count for id_, count in self._counts.items() if id_ > last}
        for id_ in [id_ for id_ in self.shared if id_ <= last]:
            self.journal.unshare(self.shared.pop(id_))
        self._cleared = Cleared(self._first, last)
        self.messages = messages
        self.octets = octets
        if not self._is_noted:
            self._note()

    def _clear_all(self, kept: Mapping[int, int]) -> None:
        """Let go of all but what is at these positions: in a moment, however much it is, and what it was in later."""
        journal, first = self.journal, self._first
        self._count_rows(-self._rows_octets)
        journal.free(self._rows)
        self._rows = _only(self._rows, first, kept)
        self._count_rows(sum(row.size + ENTRY_COST for row in self._rows.values()))
        self._counts = _only(self._counts, first, kept)
        gone, self.shared = self.shared, _only(self.shared, first, kept)
        for id_ in self.shared:
            del gone[id_]
        journal.unshare_all(gone)
        # It takes the place of an earlier one: whatever that one kept is kept now, or done with since.
        self._cleared = Cleared(first, first + self.last, tuple(kept))
        if not self._is_noted:
            self._note()

    def _count_rows(self, octets: int) -> None:
        self._rows_octets += octets
        self.journal.octets += octets

    def _note(self) -> None:
        self._is_noted = True
        self.journal.note(self)

    def row(self, id_: int) -> Row | None:
        """A row that no batch has taken yet."""
        return self._rows.get(id_)

    def replace(self, row: Row) -> None:
        """Put a row in the place of what it was."""
        self._rows[row.id] = row

    def forget(self) -> None:
        """The lane is gone, with all that it had to tell."""
        self._clear_all({})
        self._cleared = None
        self._settled = []

    def tell(self, batch: Batch) -> None:
        """Add what has happened to a batch, and begin anew."""
        self._is_noted = False
        if self._cleared is not None:
            batch.cleared.append(self._cleared)
            self._cleared = None
        if self._rows:
            batch.rows.extend(self._rows.values())
            self._rows = {}
            self._rows_octets = 0
        if self._settled:
            batch.settled.extend(self._settled)
            self._settled = []
        if self._counts:
            batch.delivery_counts.update(self._counts)
            self._counts = {}
        batch.lanes.append(State(self.number, self.messages, self.octets, self.last, self.delivered_to))


def _only(table: dict[int, T], first: int, positions: Mapping[int, int]) -> dict[int, T]:
    """What of a table is at some of these positions; it takes as long as the shorter of both."""
    if len(positions) < len(table):
        return {first + each: table[first + each] for each in positions if first + each in table}
    return {id_: each for id_, each in table.items() if id_ - first in positions}


class Shared(NamedTuple):
    """A long body that this batch has seen: where first, and its number once it was seen again."""

    message: Message
    lane: Lane
    id: int
    number: int | None


class Kept(NamedTuple):
    """A lane as it is found again."""

    owner: Owner
    state: State


class Journal:
    """Everything durable, as it happens. `wake` is called when there is something to take, and `gather` when it is.

    `events` hears of failures of those that wait.
    `epoch` is what the model's clock has to be given to become the wall's. `rows` counts the messages that ever came,
    `spared` those that were done with before a batch had them. Messages that come now are a part of `pledge`.
    `octets` wait to be taken, and `is_full` says that these and those on their way to the disk are MAX_PENDING or more.
    """

    def __init__(
        self,
        *,
        epoch: float = 0.0,
        wake: Callable[[], None] = lambda: None,
        max_pending: int = MAX_PENDING,
        events: EventDispatcher | None = None,
        work: WorkQueue | None = None,
    ) -> None:
        self._work = WorkQueue() if work is None else work
        self.epoch = epoch
        self.events = events or EventDispatcher()
        self.max_pending = max_pending
        self.octets = 0
        self.rows = 0
        self.spared = 0
        self.pledge: Pledge | None = None
        self.is_urgent = False
        self.number = 1
        self.last_committed = 0
        self.lanes: dict[Owner, Lane] = {}
        self.is_dirty = False
        self.gather: Callable[[], None] = lambda: None
        self._wake = wake
        self._noted: list[Lane] = []
        self._created: dict[int, Owner] = {}
        self._deleted: list[int] = []
        self._durables: dict[str, DefinitionRecord | None] = {}
        self._seen: dict[int, Shared] = {}
        self._bodies: dict[int, Message] = {}
        self._bodies_dropped: list[int] = []
        self._uses: dict[int, int] = {}
        self._last_body = 0
        self._last_defined = 0
        self._last_lane = 0
        self._free: list[int] = []
        self._freed: list[int] = []
        self._on_the_way = 0
        self._waiting: list[tuple[int, Callable[[], None], Callable[[], None]]] = []

    def recover(self, lanes: Iterable[Kept], shared: Mapping[int, int]) -> None:
        """Begin where an earlier journal has ended; `shared` says which rows have which body."""
        self.lanes = {kept.owner: Lane(self, kept.owner, kept.state) for kept in lanes}
        numbers = {lane.number for lane in self.lanes.values()}
        self._last_lane = max(numbers, default=0)
        self._free = [number for number in range(self._last_lane, 0, -1) if number not in numbers]
        by_number = {lane.number: lane for lane in self.lanes.values()}
        for id_, number in shared.items():
            by_number[id_ >> POSITION_BITS].shared[id_] = number
        self._uses = dict(Counter(shared.values()))
        self._last_body = max(self._uses, default=0)

    # --- definitions

    def remember(self, durable: DefinitionRecord) -> None:
        """Something is declared, or has changed."""
        self._durables[durable.key] = durable
        self.defined()

    def forget(self, key: str) -> None:
        """What has this key is gone."""
        self._durables[key] = None
        self.defined()

    def defined(self) -> None:
        """What there is has changed, and not only what waits in it: this is answered once the disk has it."""
        self._last_defined = self.number
        self.stir()

    @property
    def is_defining(self) -> bool:
        """Has something changed that the disk does not have yet?"""
        return self._last_defined > self.last_committed

    # --- lanes

    def lane(self, owner: Owner) -> Lane:
        """The lane of an owner, made if it has none; `OverflowError` when there can be no more."""
        lane = self.lanes.get(owner)
        if lane is None:
            if self._free:
                number = self._free.pop()
            elif self._last_lane < MAX_LANES:
                number = self._last_lane = self._last_lane + 1
            else:
                raise OverflowError(f"there are {MAX_LANES} lanes already")
            lane = self.lanes[owner] = Lane(self, owner, State(number, 0, 0, 0, 0))
            self._created[number] = owner
            self.stir()
        return lane

    def delete_lane(self, lane: Lane) -> None:
        """A queue, or what else has a lane, is gone with all in it."""
        del self.lanes[lane.owner]
        lane.forget()
        if self._created.pop(lane.number, None) is None:
            self._deleted.append(lane.number)
        self._freed.append(lane.number)
        self.stir()

    def delete_lanes(self, kind: str, vhost: str, name: str, priorities: int = 1) -> None:
        """All lanes of a queue, or of what else has them, are gone; it had so many priorities."""
        for priority in range(priorities):
            lane = self.lanes.get(Owner(kind, vhost, name, priority))
            if lane is not None:
                self.delete_lane(lane)

    def note(self, lane: Lane) -> None:
        """A lane has something to tell."""
        self._noted.append(lane)
        self.stir()

    def stir(self) -> None:
        """There is something to take."""
        if not self.is_dirty:
            self.is_dirty = True
            self._wake()

    # --- bodies that several lanes have

    def share(self, lane: Lane, id_: int, message: Message) -> int | None:
        """The number of a long body; None as long as only one row of this batch has it, which then embeds it."""
        seen = self._seen.get(id(message))
        first = seen.lane.row(seen.id) if seen is not None else None
        if seen is None or (seen.number is None and first is None):
            self._seen[id(message)] = Shared(message, lane, id_, None)
            return None
        number = seen.number
        if number is None or number not in self._uses:
            number = self._last_body = self._last_body + 1
            self._seen[id(message)] = seen._replace(number=number)
            self._bodies[number] = message
            self._uses[number] = 0
            if first is not None and first.shared is None:
                seen.lane.replace(first._replace(shared=number))
                self._use(number, seen.lane, first.id)
        self._use(number, lane, id_)
        return number

    def unsee(self, row: Row) -> None:
        """A row is gone whose long body need not be remembered for it alone."""
        seen = self._seen.get(id(row.message))
        if seen is not None and seen.id == row.id and seen.number is None:
            del self._seen[id(row.message)]

    def _use(self, number: int, lane: Lane, id_: int) -> None:
        lane.shared[id_] = number
        self._uses[number] += 1

    def unshare_all(self, shared: dict[int, int]) -> None:
        """Very many rows are gone. Should the disk fail before all their bodies are, a start drops those."""
        if shared:
            self._work.do(self._unsharing(shared), 0.0)

    def _unsharing(self, shared: dict[int, int]) -> Job:
        quantum = self._work.quantum
        while shared:
            self.unshare(shared.popitem()[1])
            quantum.left -= 1
            if quantum.left <= 0 and quantum.is_over():
                self.stir()
                yield
        self.stir()

    def unshare(self, number: int) -> None:
        """A row is gone that had a shared body: that goes with the last one."""
        self._uses[number] -= 1
        if not self._uses[number]:
            del self._uses[number]
            if self._bodies.pop(number, None) is None:
                self._bodies_dropped.append(number)

    def free(self, container: Container) -> None:
        """Let go of what very much was in."""
        self._work.free(container)

    # --- to the disk

    @property
    def pending(self) -> int:
        """Octets that wait for the disk, or are on their way to it."""
        return self.octets + self._on_the_way

    @property
    def is_full(self) -> bool:
        """Is so much waiting for the disk that publishers are to wait too?"""
        return self.pending >= self.max_pending

    def take(self) -> Batch:
        """All that has gathered. It may be empty: then it is as good as committed."""
        self.gather()
        number, octets = self.number, self.octets
        batch = Batch(
            number,
            octets,
            self._deleted,
            [],
            self._created,
            [],
            self._bodies,
            [],
            self._bodies_dropped,
            [],
            {},
            self._durables,
            [],
        )
        for lane in self._noted:
            if self.lanes.get(lane.owner) is lane:
                lane.tell(batch)
        self.number += 1
        self._on_the_way += octets
        self.octets = 0
        self.is_dirty = self.is_urgent = False
        self._noted = []
        self._created = {}
        self._deleted = []
        self._durables = {}
        self._seen = {}
        self._bodies = {}
        self._bodies_dropped = []
        self._free += self._freed
        self._freed = []
        return batch

    def committed(self, batch: Batch) -> None:
        """A batch, and so all before it, is on the disk, but for what the store has refused."""
        self._on_the_way -= batch.octets
        if batch.refused:
            self._refuse(batch)
        self.last_committed = batch.number
        due = [each for each in self._waiting if each[0] <= batch.number]
        self._waiting = [each for each in self._waiting if each[0] > batch.number]
        for _, call, failed in due:
            self._tell(call, failed)

    def _refuse(self, batch: Batch) -> None:
        """Some of a batch will never be written: whoever waits for it hears of that, and memory is where it stays."""
        rows = {row.id: row for row in batch.rows}
        lanes = {lane.number: lane for lane in self.lanes.values()}
        for what, error in batch.refused:
            place = str(what)
            if isinstance(what, int):
                pledge = rows[what].pledge
                if pledge is not None:
                    pledge.is_refused = True
                lane = lanes.get(what >> POSITION_BITS)
                if lane is not None:
                    lane.refused.add(what & MAX_POSITION)
                    place = f"{lane.owner.kind} {lane.owner.name} in {lane.owner.vhost}"
            self.events.fail("cannot be stored", error, of=place.replace("\0", " "))

    def when_committed(self, call: Callable[[], None], failed: Callable[[], None] = _nothing) -> None:
        """Call, once, when all that has been noted so far is on the disk, which is urgent: now, if it is.

        Where it is later, and fails, that is noticed by nobody but who is called then: `failed`.
        """
        if self.is_dirty and not self.is_urgent:
            self.is_urgent = True
            self._wake()
        self._call_after(self.number if self.is_dirty else self.number - 1, call, failed)

    def when_safe(self, pledge: Pledge, call: Callable[[], None], failed: Callable[[], None] = _nothing) -> None:
        """The same when all that belongs to a pledge is safe. Nothing may be added to it after."""
        if pledge.left:
            pledge.call = partial(self._tell, call, failed)
            self._call_after(self.number, pledge.kept, failed)
        else:
            call()

    def _call_after(self, number: int, call: Callable[[], None], failed: Callable[[], None]) -> None:
        if number <= self.last_committed:
            call()
        else:
            self._waiting.append((number, call, failed))

    def _tell(self, call: Callable[[], None], failed: Callable[[], None]) -> None:
        """Let somebody know, in the turn of somebody else."""
        try:
            call()
        except Exception as error:  # noqa: BLE001 - who has the disk, or has used a message, is not at fault
            self.events.fail("what waited for the disk failed", error)
            with self.events.contained("what waited for the disk cannot end"):
                failed()
