"""One session: commands by their numbers, their completion, and what the client is sent. Sections 3 and 9.2.

Each command gets a position, which continues to count where its id on the wire wraps around. A handler executes the
command; completions are reported at the end of the turn, or once the disk has their effect.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from functools import partial

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.command_ids import id_of, position_of
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
from amqproxy.amqp010.domains import DetachCode
from amqproxy.amqp010.errors import (
    InternalError,
    NotImplementedByPeer,
    ProtocolError,
    Scope,
)
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.methods import Command, Control
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.structs import Struct
from amqproxy.amqp091.errors import ProtocolError as ProtocolError091
from amqproxy.amqp091.wire import Table
from amqproxy.broker import firehose
from amqproxy.broker.amqp010.commands import HANDLERS
from amqproxy.broker.amqp010.completions import Completions
from amqproxy.broker.amqp010.detachment import Detachment
from amqproxy.broker.amqp010.exceptions import translated
from amqproxy.broker.amqp010.orphans import orphaning
from amqproxy.broker.amqp010.owners import OwningConnection
from amqproxy.broker.amqp010.session_deliveries import SessionDeliveries
from amqproxy.broker.amqp010.session_publisher import SessionPublisher
from amqproxy.broker.amqp010.session_sender import SessionSender
from amqproxy.broker.amqp010.settlement_run import SettlementRun
from amqproxy.broker.amqp010.transaction_branch import TransactionBranch
from amqproxy.broker.amqp010.work_unit import WorkUnit
from amqproxy.broker.connections.exclusive_queues import removing
from amqproxy.broker.queues.queue import Queue
from amqproxy.broker.storage.batch import DurabilityTicket
from amqproxy.broker.vhost import VirtualHost
from amqproxy.broker.work import Job

try:
    import cython
except ImportError:  # a plain run does not need Cython
    from amqproxy.compiled import _cython as cython

MAX_TIMEOUT = 3600
"""Maximum number of seconds that a session waits for its client."""


class BrokerSession:
    """One session of a client, on channel `number` of its connection.

    `transaction` holds the publications and acceptances of a transaction, None without one; it is that of
    `branch` if the session is associated with a dtx branch. `is_distributed` is whether it may be.
    """

    def __init__(self, name: bytes, number: int, connection: OwningConnection, vhost: VirtualHost) -> None:
        self.name = name
        self.connection: OwningConnection = connection
        self.broker = connection.broker
        self.vhost = vhost
        self.user = connection.user
        self.exclusive_queues: dict[Queue, None] = {}
        """Queues that are deleted with the session."""
        self.locked_queues: dict[Queue, None] = {}
        """Queues that stay, and are unlocked when the session ends."""
        self.transaction: WorkUnit | None = None
        self.branch: TransactionBranch | None = None
        self.branches: dict[TransactionBranch, None] = {}
        """Branches whose work the session has begun, and not ended."""
        self.is_distributed = False
        self.sender = SessionSender(number, connection.output)
        self.completions = Completions()
        self.deliveries = SessionDeliveries(self)
        self.publisher = SessionPublisher(self)
        self.timeout = 0
        """Seconds for which the session waits for its client, once that is gone."""
        self._journal = None if vhost.storage is None else vhost.storage.journal
        self._next: int | None = None
        self._seen = 0
        """Position after the last command that was executed."""
        self._flush_asked: SessionFlush | None = None
        """Flush requests of this turn, which get a single answer, as that may be long."""
        self._place: Table | None = None

    @property
    def number(self) -> int:
        """Channel of the session."""
        return self.sender.number

    @property
    def key(self) -> tuple[str, Hashable, bytes]:
        """The session's key in the broker's sessions."""
        return self.vhost.name, self.user.session_owner, self.name

    @property
    def client(self) -> str:
        """Address of the client."""
        return self.connection.name

    @property
    def place(self) -> Table:
        """Origin of this session's traces."""
        if self._place is None:
            names = self.broker.node, self.vhost.name, self.connection.name
            self._place = firehose.place(*names, self.number, self.user.name)
        return self._place

    @property
    def next_position(self) -> int | None:
        """Position of the next command, if it is known."""
        return self._next

    @property
    def is_over(self) -> bool:
        return self.sender.is_over

    @property
    def bytes_kept(self) -> int:
        """Bytes of memory kept for the client to come back, beside what a connection's channel takes."""
        return self.sender.replay.size + (self.deliveries.bytes_in_memory if self.is_detached else 0)

    @property
    def is_detached(self) -> bool:
        """Whether the session waits for its client to come back."""
        return isinstance(self.connection, Detachment)

    # --- commands

    def receive(self, assembly: Assembly, now: float) -> None:
        """Execute a command. An error in it ends the session."""
        position = self._next
        if position is None:
            self.connection.detached(self, DetachCode.UNKNOWN_IDS, now)
            return
        self._next = position + 1
        if position < self._seen:  # sent again, after a connection was lost
            if not self.completions.has_begun(position):
                self._complete_again(position, position + 1)
            return
        self._seen = position + 1
        command: Command = assembly.method
        try:
            self._execute(assembly, command, position, now)
        except (ProtocolError, ProtocolError091) as error:
            self.fail(error, position, command, now)

    def receive_known(self, command: Frame, header: Frame, body: Frame, now: float) -> cython.bint:
        """Take a message.transfer with one frame for each segment, if it matches earlier ones.

        False if it does not: then it has to be assembled.
        """
        position = self._next
        if position is None or position < self._seen or self.sender.is_over:
            return False
        publisher = self.publisher
        if body.length() > publisher.largest or not publisher.knows(command, header):
            return False
        self._next = self._seen = position + 1
        try:
            if publisher.transfer_known(header, body.payload_bytes(), position, now):
                self._complete(position, position + 1)
            else:
                self.connection.to_end_turn(self)
        except (ProtocolError, ProtocolError091) as error:
            self.fail(error, position, command.method, now)
        return True

    def receive_settlements(
        self, run: SettlementRun, frames: list[Frame], place: cython.Py_ssize_t, now: float
    ) -> cython.Py_ssize_t:
        """Take completions and acceptances from a place on as one `run`; return how many frames it has.

        It has none if the first has to be assembled, since that takes more than this.
        """
        position = self._next
        deliveries = self.deliveries
        if position is None or position < self._seen or self.sender.is_over:
            return 0
        if self.transaction is not None or deliveries.browsed or deliveries.acquired:
            return 0
        count: cython.Py_ssize_t = run.gather(frames, place, self.sender.position)
        if run.accepts:
            self._next = self._seen = position + run.accepts
            deliveries.accept_few([run.accepted], now)
            self._complete(position, position + run.accepts)
        if completed := run.completed:  # last: a browser may continue with it, and then accepting takes more
            self._take_completed([completed], now)
        return count

    def _execute(self, assembly: Assembly, command: Command, position: cython.longlong, now: float) -> None:
        if type(command) is MessageTransfer:
            if self.publisher.transfer(assembly, position, now):
                self._complete(position, position + 1)
            else:
                self.connection.to_end_turn(self)
            return
        if type(command) is MessageAccept and self._accept(command, now):
            self._complete(position, position + 1)
            return
        self.connection.is_costly()
        handler = HANDLERS.get(type(command))
        if handler is None:
            raise NotImplementedByPeer(command.name)
        self.completions.begin(position)
        if not handler(self, command, position, now):
            self.complete(position)

    def _accept(self, accept: MessageAccept, now: float) -> cython.bint:
        """Execute an accept that is part of every message's path; return False if it takes more than that."""
        if self.transaction is not None or accept.transfers is None:
            return False
        return self.deliveries.accept_few(self._ranges(accept.transfers, self.sender.position), now)

    def do(self, job: Job, now: float) -> None:
        """Run a job before anything more that the client asks for."""
        self.connection.do(job, now, self, self._seen - 1)

    def finish(self, job: Job, position: int, now: float) -> bool:
        """Execute a command in steps, and complete it; returns True, for handlers."""
        self.do(self._finishing(job, position), now)
        return True

    def _finishing(self, job: Job, position: int) -> Job:
        yield from job
        self.complete(position)

    def finish_kept(self, job: Job, position: int, now: float, *durables: bool) -> bool:
        """Execute a command in steps, and complete it once the disk has it, if all that it concerns is durable.

        Returns True, for handlers.
        """
        self.do(self._finishing_kept(job, position, durables), now)
        return True

    def _finishing_kept(self, job: Job, position: int, durables: tuple[bool, ...]) -> Job:
        yield from job
        if not self.kept(position, *durables):
            self.complete(position)

    def sync(self, position: int) -> bool:
        """Complete a command once all before it are complete; return True if that is later."""
        return self.completions.sync(position)

    def kept(self, position: int, *durables: bool) -> bool:
        """Complete a command once the disk has it, if all that it concerns is durable; return True if that is later."""
        journal = self._journal
        if journal is None or not journal.is_defining or not all(durables):
            return False
        self.when_kept(DurabilityTicket(), partial(self.complete, position))
        return True

    def when_kept(self, ticket: DurabilityTicket, answer: Callable[[], None]) -> None:
        """Call `answer` once all that was done so far is on the disk; the session fails if `ticket` is refused."""
        if self._journal is None:
            answer()
        else:
            self._journal.when_committed(partial(self._answer_kept, ticket, answer), self.fail_soon)

    def _answer_kept(self, ticket: DurabilityTicket, answer: Callable[[], None]) -> None:
        if ticket.is_refused:
            self.fail_soon()
        elif not self.is_over:
            answer()
            self.end_turn()

    # --- completion

    def complete(self, position: int) -> None:
        """Complete a command, to be reported at the end of the turn."""
        self._complete(position, position + 1)

    def complete_range(self, positions: range) -> None:
        """Complete a range of commands."""
        self._complete(positions.start, positions.stop)

    def _complete(self, start: cython.longlong, stop: cython.longlong) -> None:
        if self.sender.is_over:
            return
        completions = self.completions
        is_to_report = not completions.is_new
        completions.complete(start, stop)
        if is_to_report:
            self.connection.to_end_turn(self)

    def _complete_again(self, start: int, stop: int) -> None:
        self.completions.complete_again(start, stop)
        self.connection.to_end_turn(self)

    def end_turn(self) -> None:
        """Report the completions of this turn."""
        if self.is_over or self.is_detached:
            return
        self.publisher.end_turn()
        if self._flush_asked is not None:
            flush, self._flush_asked = self._flush_asked, None
            self.completions.report_all(self.sender, confirmed=flush.confirmed, completed=flush.completed)
        self.completions.report(self.sender)

    def result(self, position: int, value: Struct) -> None:
        """Send the result of a command."""
        self.sender.send(ExecutionResult(id_of(position), value))

    # --- controls

    def control(self, control: Control, now: float) -> None:
        """Handle a session control."""
        match control:
            case SessionCommandPoint():
                if control.command_offset:
                    raise NotImplementedByPeer("a command that is resumed in its middle", scope=Scope.CONNECTION)
                self._next = position_of(control.command_id or 0, self._seen)
            case SessionCompleted():
                self.take_completed(control, now)
            case SessionKnownCompleted():
                self.completions.known(self._ranges(control.commands or SequenceSet(), self._seen))
            case SessionFlush():
                self._flush(control)
            case SessionRequestTimeout():
                wanted = MAX_TIMEOUT if control.timeout is None else control.timeout
                self.timeout = min(wanted, MAX_TIMEOUT)
                self.sender.keeps = self.timeout > 0
                self.sender.control(SessionTimeout(self.timeout))
            case SessionGap():
                for each in self._ranges(control.commands or SequenceSet(), self._seen):
                    self._skip(each)
            case SessionConfirmed():
                self.sender.replay.confirmed(self.ranges(control.commands or SequenceSet()))
            case SessionExpected():
                self._take_expected(control, now)
            case SessionTimeout():
                pass
            case _:
                raise AssertionError(control)

    def take_completed(self, completed: SessionCompleted, now: float) -> None:
        """Process the client's completion of commands, which is part of every message's path."""
        if completed.commands is None:
            return
        ranges = self._ranges(completed.commands, self.sender.position)
        if completed.timely_reply:  # as Broker-J does it: without, qpid.messaging ends the connection at a reply
            self.completions.to_be_known(ranges)
        self._take_completed(ranges, now)

    def _take_completed(self, ranges: list[range], now: float) -> None:
        if len(ranges) > 1:
            self.vhost.work.quantum.left -= len(ranges)
        if len(self.sender.replay):
            self.sender.replay.confirmed(ranges)
        self.deliveries.completed(ranges, now)
        self.connection.to_end_turn(self)

    def _flush(self, flush: SessionFlush) -> None:
        if flush.expected:
            is_new = self._next is None and not self._seen
            next_id = id_of(self._seen if self._next is None else self._next)
            self.sender.control(SessionExpected(SequenceSet(() if is_new else ((next_id, next_id),))))
        earlier = self._flush_asked or SessionFlush()
        self._flush_asked = SessionFlush(
            confirmed=flush.confirmed or earlier.confirmed, completed=flush.completed or earlier.completed
        )
        self.connection.to_end_turn(self)

    def _skip(self, gap: range) -> None:
        """Count the commands of a gap, which will not come, as complete."""
        if self._next is not None and gap.start <= self._next < gap.stop:
            self._next = gap.stop
            self._seen = max(gap.stop, self._seen)
        self._complete_again(gap.start, gap.stop)

    def ranges(self, commands: SequenceSet) -> list[range]:
        """Return the positions of the transfers that a client refers to."""
        return self._ranges(commands, self.sender.position)

    def _ranges(self, commands: SequenceSet, near: cython.longlong) -> list[range]:
        found = [range(position_of(first, near), position_of(last, near) + 1) for first, last in commands.ranges]
        return [each for each in found if each]

    # --- the end

    def fail(
        self, error: ProtocolError | ProtocolError091, position: int | None, command: Command | None, now: float
    ) -> None:
        """End the session with an exception; an error of connection scope is raised, to close the connection."""
        if isinstance(error, ProtocolError091):
            error = translated(error)
        if error.scope is Scope.CONNECTION:
            raise error
        if self.is_over:
            return
        self.end_turn()
        self.connection.log_exception(self.number, error, command)
        self.sender.send(
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
        self.sender.control(SessionDetach(self.name))
        self.connection.end_session(self, now)

    def fail_soon(self, error: ProtocolError | None = None) -> None:
        """End the session at the next tick, with internal-error if no other error is known.

        The failure occurred in the middle of another operation.
        """
        self.connection.fail_session_soon(self, error or InternalError("the broker failed; its log says how"))

    # --- detaching and resuming

    def detach(self, now: float) -> bool:
        """Wait for the client to come back, if it has asked for that; return whether the session waits."""
        if self.user.session_owner is self.user:
            return False  # no other login could attach to it
        if not self.timeout or self.is_over or not self.vhost.quotas.detached.take(self.user.name):
            return False
        self.vhost.detached[self] = None
        self.connection = Detachment(self.connection, self.vhost, self._end_detached)
        self._next = None
        self.sender.detach()
        self.vhost.timed.set(self, now + self.timeout)
        return True

    def resume(self, connection: OwningConnection, number: int, now: float) -> None:
        """Attach to a channel of the returned client's connection, and ask the client what it has not received.

        The session then has the rights of the new connection's login, whose token may permit less.
        """
        self._wait_no_more()
        self.connection = connection
        self.user = connection.user
        self.publisher.change_user(connection.user)
        self._place = None  # it names the connection
        for subscription in self.deliveries.subscriptions.values():
            subscription.head = b""
        self.completions.report_afresh()
        connection.to_end_turn(self)
        if not self.sender.attach(number, connection.output):
            self.deliveries.pump(now)

    def _take_expected(self, expected: SessionExpected, now: float) -> None:
        if not self.sender.awaits_expected:
            return
        positions = self.ranges(expected.commands or SequenceSet())
        if not positions:  # the client has lost the session's state
            self.connection.detached(self, DetachCode.UNKNOWN_IDS, now)
            return
        self.do(self._replaying(positions, now), now)

    def _replaying(self, positions: list[range], now: float) -> Job:
        now = yield from self.sender.replaying(positions, self.vhost.work.quantum, now)
        self.deliveries.pump(now)

    def tick(self, now: float) -> None:
        """End the session: its client has not come back in time."""
        if self.is_detached:
            self._end_detached(now)

    def _end_detached(self, now: float) -> None:
        if not self.is_over:
            self.broker.sessions.pop(self.key, None)
            self._wait_no_more()
            self.vhost.work.do(self.closing(now), now)

    def _wait_no_more(self) -> None:
        if self.vhost.detached.pop(self, self) is None:
            self.vhost.quotas.detached.give_back(self.user.name)
        self.vhost.timed.drop(self)

    def take_over(self, now: float) -> None:
        """End the session here: another connection attaches to it by force."""
        self.connection.detached(self, DetachCode.NORMAL, now)

    def closing(self, now: float) -> Generator[None, float, float]:
        """End the session in steps: give back what it holds, and end its subscriptions and queues."""
        self.sender.is_over = True
        self.publisher.fragments.end(now)
        if self.is_distributed:
            for branch in [each for each in self.branches if each.leave(self, now)]:
                now = yield from branch.unit.giving_back(now)
        elif self.transaction is not None:
            now = yield from self.transaction.rolling_back(self.deliveries, now)
        now = yield from self.deliveries.closing(now)
        for queue in self.locked_queues:
            queue.locked_by = None
        queues, self.exclusive_queues, self.locked_queues = self.exclusive_queues, {}, {}
        return (yield from removing(self.vhost, queues, self.client, now, partial(orphaning, self.vhost)))
