"""One session: commands by their numbers, what of them is complete, and what the client is sent. Section 3 and 9.2.

Each command gets a position, which counts on where its id on the wire rolls over. A command's handler does what it asks
for; what is complete is reported at the end of the turn, or once the disk has it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.command_ids import CommandIds, id_of, position_of
from amqproxy.amqp010.commands import ExecutionException, ExecutionResult, MessageAccept, MessageTransfer
from amqproxy.amqp010.controls import (
    SessionCommandPoint,
    SessionCompleted,
    SessionConfirmed,
    SessionDetach,
    SessionExpected,
    SessionFlush,
    SessionGap,
    SessionKnownCompleted,
    SessionRequestTimeout,
    SessionTimeout,
)
from amqproxy.amqp010.domains import AcceptMode, AcquireMode, DetachCode
from amqproxy.amqp010.errors import (
    InternalError,
    NotImplementedByPeer,
    ProtocolError,
    ResourceDeleted,
    Scope,
)
from amqproxy.amqp010.frame import BODY, COMMAND, FIRST_SEGMENT, HEADER, LAST_SEGMENT, encode_segment
from amqproxy.amqp010.methods import Command, Control
from amqproxy.amqp010.sequence import MAX_RANGES, SequenceSet
from amqproxy.amqp010.structs import Struct
from amqproxy.amqp091.errors import ProtocolError as ProtocolError091
from amqproxy.amqp091.wire import Table
from amqproxy.broker import firehose
from amqproxy.broker.amqp010.commands import HANDLERS
from amqproxy.broker.amqp010.detachment import Detachment
from amqproxy.broker.amqp010.exceptions import translated
from amqproxy.broker.amqp010.orphans import orphaning
from amqproxy.broker.amqp010.owners import OwningConnection
from amqproxy.broker.amqp010.replay import ReplayBuffer, SentCommand
from amqproxy.broker.amqp010.session_deliveries import SessionDeliveries
from amqproxy.broker.amqp010.session_publisher import SessionPublisher
from amqproxy.broker.amqp010.subscription import Subscription
from amqproxy.broker.amqp010.transaction_branch import TransactionBranch
from amqproxy.broker.amqp010.work_unit import WorkUnit
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.vhost import VirtualHost
from amqproxy.broker.work import Job

MANY_RANGES = 1024
"""Ranges of completed commands that the client has not confirmed to know of, above which it is asked to."""

REMOVING = 16
"""What it costs of a turn to remove a queue."""

MAX_TIMEOUT = 3600
"""Seconds that a session waits for its client, at most."""

MAX_DETACHED = 1000
"""Sessions that may wait so in one virtual host; of more, they end at once."""

LARGE = 16 * 1024
"""Bytes of a body from which it is not copied into the frames around it."""


class BrokerSession:
    """One session of a client, on channel `number` of its connection.

    `transaction` has what is published and accepted in a transaction, None where the session has none; it is that of
    `branch`, where the session is associated with a branch of dtx. `is_distributed` is whether it may be.
    """

    def __init__(self, name: bytes, number: int, connection: OwningConnection, vhost: VirtualHost) -> None:
        self.name = name
        self.number = number
        self.connection: OwningConnection = connection
        self.broker = connection.broker
        self.vhost = vhost
        self.user = connection.user
        self.exclusive_queues: dict[Queue, None] = {}
        """Those that go with the session."""
        self.locked_queues: dict[Queue, None] = {}
        """Those that stay, and are free again then."""
        self.transaction: WorkUnit | None = None
        self.branch: TransactionBranch | None = None
        self.branches: dict[TransactionBranch, None] = {}
        """Those whose work it has begun, and not ended."""
        self.is_distributed = False
        self.is_over = False
        self.deliveries = SessionDeliveries(self)
        self.publisher = SessionPublisher(self)
        self._journal = None if vhost.storage is None else vhost.storage.journal
        self._next: int | None = None
        self._seen = 0
        """The position behind the last command that was executed."""
        self._completed = CommandIds()
        self._has_completed = False
        self._incomplete: dict[int, None] = {}
        self._syncs: deque[int] = deque()
        self._to_accept = CommandIds()
        self._accepted_along: dict[int, CommandIds] = {}
        """What else is accepted with a transfer: those before it, of one message."""
        self._accepted = CommandIds()
        self._known: list[tuple[int, int]] = []
        self._sent = 0
        self._is_pointed = False
        self.timeout = 0
        """Seconds for which the session waits for its client, once that is gone."""
        self._replay = ReplayBuffer()
        self._awaits_expected = False
        self._place: Table | None = None

    @property
    def client(self) -> str:
        """The address of the client."""
        return self.connection.name

    @property
    def place(self) -> Table:
        """Where this session's traces come from."""
        if self._place is None:
            names = self.broker.node, self.vhost.name, self.connection.name
            self._place = firehose.place(*names, self.number, self.user.name)
        return self._place

    @property
    def open_transaction(self) -> WorkUnit | None:
        """What takes messages, where they are to wait for a commit."""
        return self.transaction

    @property
    def next_position(self) -> int | None:
        """The position of the command that comes next, where that is known."""
        return self._next

    @property
    def may_send(self) -> bool:
        """Is there room for something more to be sent?"""
        if self.is_over or self._awaits_expected or not self.connection.output.has_room:
            return False
        return not (self.timeout and self._replay.is_full)

    @property
    def bytes_kept(self) -> int:
        """Bytes of memory that it takes for its client to come back, beside what a connection's channel takes."""
        return self._replay.size + (self.deliveries.unacked.bytes_in_memory if self.is_detached else 0)

    @property
    def is_detached(self) -> bool:
        """Does it wait for its client to come back?"""
        return isinstance(self.connection, Detachment)

    def id_of(self, position: int) -> int:
        """The command id on the wire."""
        return id_of(position)

    # --- what comes

    def receive(self, assembly: Assembly, now: float) -> None:
        """Take a command. What is wrong with it ends the session."""
        position = self._next
        if position is None:
            self.connection.detached(self, DetachCode.UNKNOWN_IDS, now)
            return
        self._next = position + 1
        if position < self._seen:  # sent again, after a connection was lost
            if position not in self._incomplete:
                self._complete(range(position, position + 1))
            return
        self._seen = position + 1
        command: Command = assembly.method
        try:
            self._execute(assembly, command, position, now)
        except (ProtocolError, ProtocolError091) as error:
            self.fail(error, position, command, now)

    def _execute(self, assembly: Assembly, command: Command, position: int, now: float) -> None:
        if type(command) is MessageTransfer:
            if self.publisher.transfer(assembly, position, now):
                self.complete(position)
            else:
                self._incomplete[position] = None
            return
        self.connection.is_costly()
        handler = HANDLERS.get(type(command))
        if handler is None:
            raise NotImplementedByPeer(command.name)
        self._incomplete[position] = None
        if not handler(self, command, position, now):
            self.complete(position)

    def do(self, job: Job, now: float) -> None:
        """Do a job before anything more that the client asks for."""
        self.connection.do(job, now, self, self._seen - 1)

    def finish(self, job: Job, position: int, now: float) -> bool:
        """Do what a command asks for in steps, and complete it; returns True, for handlers."""
        self.do(self._finishing(job, position), now)
        return True

    def _finishing(self, job: Job, position: int) -> Job:
        yield from job
        self.complete(position)

    def finish_kept(self, job: Job, position: int, now: float, *durables: bool) -> bool:
        """The same, and complete it once the disk has it, if all that it concerns is durable."""
        self.do(self._finishing_kept(job, position, durables), now)
        return True

    def _finishing_kept(self, job: Job, position: int, durables: tuple[bool, ...]) -> Job:
        yield from job
        if not self.kept(position, *durables):
            self.complete(position)

    def kept(self, position: int, *durables: bool) -> bool:
        """Complete a command once the disk has it, if all that it concerns is durable. True if that is later."""
        journal = self._journal
        if journal is None or not journal.is_defining or not all(durables):
            return False
        journal.when_committed(lambda: self._kept(position), self.fail_soon)
        return True

    def _kept(self, position: int) -> None:
        self.complete(position)
        self.end_turn()

    # --- completion

    def complete(self, position: int) -> None:
        """A command is done."""
        self.complete_range(range(position, position + 1))

    def complete_range(self, positions: range) -> None:
        """Commands are done; that is reported at the end of the turn."""
        if self.is_over:
            return
        incomplete = self._incomplete
        if incomplete:
            is_small = len(positions) <= len(incomplete)
            for position in positions if is_small else [each for each in incomplete if each in positions]:
                incomplete.pop(position, None)
        self._complete(positions)
        while self._syncs and not self._is_before(self._syncs[0]):
            position = self._syncs.popleft()
            del self._incomplete[position]
            self._complete(range(position, position + 1))

    def _complete(self, positions: range) -> None:
        for accepted in self._to_accept.remove(positions) if self._to_accept else ():
            self._accepted.add(accepted)
            for position in [each for each in self._accepted_along if each in accepted]:
                for earlier in self._accepted_along.pop(position):
                    self._accepted.add(earlier)
        self._completed.add(positions)
        self._has_completed = True
        self.connection.to_end_turn(self)

    def _is_before(self, position: int) -> bool:
        """Is a command before this one not complete?"""
        first = next(iter(self._incomplete), position)
        return first < position

    def sync(self, position: int) -> bool:
        """Complete a command once all before it are; True if that is later."""
        if not self._is_before(position):
            return False
        self._syncs.append(position)
        return True

    def expects_accept(self, position: int, earlier: CommandIds | None = None) -> None:
        """Accept a transfer once it is complete, and with it those that brought the parts of its message before."""
        self._to_accept.add(range(position, position + 1))
        if earlier:
            self._accepted_along[position] = earlier

    def end_turn(self) -> None:
        """Report what was completed."""
        if self.is_over or self.is_detached:
            return
        self.publisher.end_turn()
        if self._accepted:
            accepted, self._accepted = list(self._accepted), CommandIds()
            for start in range(0, len(accepted), MAX_RANGES):
                self.send(MessageAccept(_set(accepted[start : start + MAX_RANGES])))
        if self._has_completed:
            self._has_completed = False
            self._forget_completed()
            is_many = self._completed.ranges > MANY_RANGES
            self._control(SessionCompleted(_set(self._completed), timely_reply=is_many))
        if self._known:
            known, self._known = self._known, []
            for start in range(0, len(known), MAX_RANGES):
                self._control(SessionKnownCompleted(SequenceSet(known[start : start + MAX_RANGES])))

    def _forget_completed(self) -> None:
        """Report no more ranges than fit: a client that wants to know of its oldest commands has had the time."""
        if self._completed.ranges > MAX_RANGES:
            ranges = list(self._completed)
            self._completed.remove(range(ranges[0].start, ranges[len(ranges) - MAX_RANGES].start))

    # --- what goes out

    def send(self, command: Command) -> int:
        """Send a command without content; its position."""
        position = self._next_sent()
        if self.timeout:
            self._replay.keep(position, SentCommand(command.encode()))
        if not self._awaits_expected:
            self.connection.send_method(self.number, command)
        return position

    def _next_sent(self) -> int:
        if not self._is_pointed and not self._awaits_expected and not self.is_detached:
            self._is_pointed = True
            self._control(SessionCommandPoint(id_of(self._sent), 0))
        position = self._sent
        self._sent = position + 1
        return position

    def _control(self, control: Control) -> None:
        self.connection.send_method(self.number, control)

    def send_transfer(self, subscription: Subscription, header: bytes, body: bytes) -> int:
        """Send a message to a subscription; the position of the transfer."""
        position = self._next_sent()
        number, frame_max = self.number, self.connection.frame_max
        if not subscription.command:
            accept = AcceptMode.EXPLICIT if subscription.accepts_explicitly else AcceptMode.NONE
            acquire = AcquireMode.PRE_ACQUIRED if subscription.acquires else AcquireMode.NOT_ACQUIRED
            subscription.command = MessageTransfer(subscription.destination, accept, acquire).encode()
        if self.timeout:
            self._replay.keep(position, SentCommand(subscription.command, header, body))
        if not subscription.head or header is not subscription.header:
            head = encode_segment(FIRST_SEGMENT, COMMAND, number, subscription.command, frame_max)
            subscription.head = head + encode_segment(0, HEADER, number, header, frame_max)
            subscription.header = header
        output, head = self.connection.output, subscription.head
        if len(body) < LARGE:
            output.put(head + encode_segment(LAST_SEGMENT, BODY, number, body, frame_max))
        else:
            output.put(head)
            output.put(encode_segment(LAST_SEGMENT, BODY, number, body, frame_max))
        return position

    def result(self, position: int, value: Struct) -> None:
        """Send the result of a command."""
        self.send(ExecutionResult(id_of(position), value))

    # --- controls

    def control(self, control: Control, now: float) -> None:
        """Take a control of the session."""
        match control:
            case SessionCommandPoint():
                if control.command_offset:
                    raise NotImplementedByPeer("a command that is resumed in its middle", scope=Scope.CONNECTION)
                self._next = position_of(control.command_id or 0, self._seen)
            case SessionCompleted():
                commands = control.commands or SequenceSet()
                ranges = self._sent_ranges(commands)
                self._replay.confirmed(ranges)
                self.deliveries.completed(ranges, now)
                self._known += commands.ranges
                self.connection.to_end_turn(self)
            case SessionKnownCompleted():
                for each in self._ranges(control.commands or SequenceSet(), self._seen):
                    self._completed.remove(each)
            case SessionFlush():
                self._flush(control)
            case SessionRequestTimeout():
                wanted = MAX_TIMEOUT if control.timeout is None else control.timeout
                self.timeout = min(wanted, MAX_TIMEOUT)
                self._control(SessionTimeout(self.timeout))
            case SessionGap():
                for each in self._ranges(control.commands or SequenceSet(), self._seen):
                    self._skip(each)
            case SessionConfirmed():
                self._replay.confirmed(self._sent_ranges(control.commands or SequenceSet()))
            case SessionExpected():
                self._take_expected(control, now)
            case SessionTimeout():
                pass
            case _:
                raise AssertionError(control)

    def _flush(self, flush: SessionFlush) -> None:
        self.publisher.end_turn()
        self._forget_completed()
        if flush.expected:
            is_new = self._next is None and not self._seen
            next_id = id_of(self._seen if self._next is None else self._next)
            self._control(SessionExpected(SequenceSet(() if is_new else ((next_id, next_id),))))
        if flush.confirmed:
            self._control(SessionConfirmed(_set(self._completed)))
        if flush.completed:
            self._has_completed = False
            self._control(SessionCompleted(_set(self._completed)))

    def _skip(self, gap: range) -> None:
        """Commands that will not come count as complete."""
        if self._next is not None and gap.start <= self._next < gap.stop:
            self._next = self._seen = max(gap.stop, self._seen)
        self._complete(gap)

    def ranges(self, commands: SequenceSet) -> list[range]:
        """The positions of transfers that a client refers to."""
        return self._sent_ranges(commands)

    def _sent_ranges(self, commands: SequenceSet) -> list[range]:
        return self._ranges(commands, self._sent)

    def _ranges(self, commands: SequenceSet, near: int) -> list[range]:
        found = (range(position_of(first, near), position_of(last, near) + 1) for first, last in commands.ranges)
        return [each for each in found if each]

    # --- the end

    def fail(
        self, error: ProtocolError | ProtocolError091, position: int | None, command: Command | None, now: float
    ) -> None:
        """End the session with an exception; a fault of the connection's closes that."""
        if isinstance(error, ProtocolError091):
            error = translated(error)
        if error.scope is Scope.CONNECTION:
            raise error
        if self.is_over:
            return
        self.end_turn()
        self.connection.log_exception(self.number, error, command)
        self.send(
            ExecutionException(
                error.code,
                None if position is None else id_of(position),
                error.class_code or (None if command is None else command.class_code),
                error.method_code or (None if command is None else command.method_code),
                error.field_index,
                error.reply_text,
                None,
            )
        )
        self._control(SessionDetach(self.name))
        self.connection.end_session(self, now)

    def fail_soon(self, error: ProtocolError | None = None) -> None:
        """End the session at the next tick, with internal-error if nothing else is known: what has failed did so in the
        middle of something.
        """
        self.connection.fail_session_soon(self, error or InternalError("the broker failed; its log says how"))

    def queue_deleted(self, name: str) -> None:
        """The queue of a subscription is gone."""
        self.connection.fail_session_soon(self, ResourceDeleted(f"the queue '{name}' is deleted"))

    # --- a client that is gone, and comes back

    def detach(self, now: float) -> bool:
        """Wait for the client to come back, if it wants that: then True."""
        if not self.timeout or self.is_over or len(self.vhost.detached) >= MAX_DETACHED:
            return False
        self.vhost.detached[self] = None
        self.connection = Detachment(self.connection, self.vhost, self._end_detached)
        self._next = None
        self._is_pointed = False
        self._awaits_expected = False
        self.vhost.timed.set(self, now + self.timeout)
        return True

    def resume(self, connection: OwningConnection, number: int, now: float) -> None:
        """The client is back, on a channel of another connection, and is asked what it has not received."""
        self._wait_no_more()
        self.connection, self.number = connection, number
        for subscription in self.deliveries.subscriptions.values():
            subscription.head = b""
        self._has_completed = True
        connection.to_end_turn(self)
        if self._sent:
            self._awaits_expected = True
            self._control(SessionFlush(expected=True))
        else:
            self.deliveries.pump(now)

    def _take_expected(self, expected: SessionExpected, now: float) -> None:
        if not self._awaits_expected:
            return
        positions = self._sent_ranges(expected.commands or SequenceSet())
        if not positions:  # the client has nothing of the session any more
            self.connection.detached(self, DetachCode.UNKNOWN_IDS, now)
            return
        self.do(self._replaying(positions, now), now)

    def _replaying(self, positions: list[range], now: float) -> Job:
        """Send again what the client has not received, in steps."""
        following = -1
        self._is_pointed = True
        for position, command in self._replay.expected(positions):
            if position != following:
                self._control(SessionCommandPoint(id_of(position), 0))
            following = position + 1
            self.connection.output.put(command.frames(self.number, self.connection.frame_max))
            if self.vhost.work.quantum.spend(1):
                now = yield
        if following != self._sent:
            self._control(SessionCommandPoint(id_of(self._sent), 0))
        self._awaits_expected = False
        self.deliveries.pump(now)

    def tick(self, now: float) -> None:
        """The client has not come back in time."""
        if self.is_detached:
            self._end_detached(now)

    def _end_detached(self, now: float) -> None:
        if not self.is_over:
            self.broker.sessions.pop((self.vhost.name, self.user.name, self.name), None)
            self._wait_no_more()
            self.vhost.work.do(self.closing(now), now)

    def _wait_no_more(self) -> None:
        self.vhost.detached.pop(self, None)
        self.vhost.timed.drop(self)

    def take_over(self, now: float) -> None:
        """Another connection attaches to the session by force: it ends here."""
        self.connection.detached(self, DetachCode.NORMAL, now)

    def closing(self, now: float) -> Generator[None, float, float]:
        """The session is over: what it holds goes back, and its subscriptions and queues end; in steps."""
        self.is_over = True
        self.publisher.fragments.end(now)
        contained = self.vhost.events.contained
        if self.is_distributed:
            for branch in [each for each in self.branches if each.leave(self, now)]:
                now = yield from branch.unit.giving_back(now)
        elif self.transaction is not None:
            now = yield from self.transaction.rolling_back(self.deliveries, now)
        now = yield from self.deliveries.closing(now)
        for queue in self.locked_queues:
            queue.locked_by = None
        queues = list(self.exclusive_queues)
        self.exclusive_queues, self.locked_queues = {}, {}
        quantum = self.vhost.work.quantum
        while queues:
            queue = queues.pop()
            with contained("an exclusive queue's end failed", client=self.client, queue=queue.name):
                now = yield from orphaning(self.vhost, queue, now)
                self.vhost.remove_queue(queue)
            if quantum.spend(REMOVING):
                now = yield
        return now


def _set(ids: Iterable[range]) -> SequenceSet:
    return SequenceSet([(id_of(each.start), id_of(each.stop - 1)) for each in ids])
