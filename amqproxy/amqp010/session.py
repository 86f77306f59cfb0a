"""State of one session: the commands of both peers, and the objects that they may refer to (sections 3, 9.2 and 10)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.command_ids import CommandIds
from amqproxy.amqp010.command_stream import CommandStream
from amqproxy.amqp010.commands import (
    DtxCommit,
    DtxEnd,
    DtxForget,
    DtxPrepare,
    DtxRollback,
    DtxSelect,
    DtxStart,
    ExecutionException,
    ExecutionResult,
    MessageAccept,
    MessageAcquire,
    MessageCancel,
    MessageFlow,
    MessageFlush,
    MessageReject,
    MessageRelease,
    MessageSetFlowMode,
    MessageStop,
    MessageSubscribe,
    MessageTransfer,
    TxCommit,
    TxRollback,
    TxSelect,
)
from amqproxy.amqp010.controls import (
    SessionCommandPoint,
    SessionCompleted,
    SessionConfirmed,
    SessionExpected,
    SessionFlush,
    SessionGap,
    SessionKnownCompleted,
    SessionRequestTimeout,
    SessionTimeout,
)
from amqproxy.amqp010.credit import Credit
from amqproxy.amqp010.domains import AcceptMode, SegmentType
from amqproxy.amqp010.errors import (
    IllegalArgument,
    IllegalState,
    NotAllowed,
    NotFound,
    ProtocolError,
    ResourceLimitExceeded,
)
from amqproxy.amqp010.methods import Command, Control
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.subscription import Subscription
from amqproxy.amqp010.transaction import Transaction, TransactionMode
from amqproxy.amqp010.transfers import Transfers
from amqproxy.amqp010.transitions import SENDERS, SessionState
from amqproxy.peer import CLIENT, SERVER, Peer

MAX_REQUESTS = 65_536
"""Maximum number of unanswered session.request-timeout, or session.flush, of one peer."""

MAX_DESTINATIONS = 65_536
"""Maximum number of subscriptions of a session, and of destinations for which a server may limit a client."""


class Session:
    """A session, attached to a channel or retained without one.

    `streams` and `transfers` are the commands and messages that each peer has sent. `subscriptions` are the client's,
    by destination. `limits` has the credit that the server gives the client, by destination; without an entry, there is
    no limit. `timeout` is the time for which the session is retained once detached, in seconds, `None` for ever.
    `failed_by` is the peer that has sent execution.exception: later commands of the other have no effect.

    A command is applied as far as possible before an error is raised. Fragments of commands, in session.expected and
    session.confirmed, are ignored: their struct has no code, so that an array of them cannot be encoded.
    """

    __slots__ = (
        "_ending",
        "_expecting",
        "_requested_timeouts",
        "failed_by",
        "limits",
        "name",
        "state",
        "streams",
        "subscriptions",
        "timeout",
        "transaction",
        "transfers",
    )

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.state = SessionState.DETACHED
        self.timeout: int | None = 0
        self.streams = {peer: CommandStream() for peer in Peer}
        self.transfers = {peer: Transfers() for peer in Peer}
        self.subscriptions: dict[str, Subscription] = {}
        self.limits: dict[str, Credit] = {}
        self.transaction = Transaction()
        self.failed_by: Peer | None = None
        self._requested_timeouts: dict[Peer, deque[int | None]] = {peer: deque() for peer in Peer}
        self._expecting = dict.fromkeys(Peer, 0)
        self._ending: dict[Peer, dict[int, Credit | Subscription]] = {peer: {} for peer in Peer}

    def attach(self, sender: Peer) -> None:
        """Restart on a channel, where the numbering must be set before commands are sent."""
        self.state = SessionState.ATTACHING_BY_CLIENT if sender is CLIENT else SessionState.ATTACHING_BY_SERVER
        for peer in Peer:
            self.streams[peer].reattach()
            self._requested_timeouts[peer].clear()
            self._expecting[peer] = 0

    def join(self, sender: Peer, command_id: int | None) -> None:
        """Follow the commands of `sender` from now on, of which the next has this id; nothing is known about earlier
        ones.
        """
        self.streams[sender] = stream = CommandStream()
        stream.next = command_id
        self.transfers[sender] = Transfers()
        self._ending[sender] = {}
        if sender is CLIENT:
            self.subscriptions = {}
            self.transaction = Transaction()
        else:
            self.limits = {}

    @property
    def awaits_timeout(self) -> bool:
        """Whether a peer's request for a timeout is unanswered."""
        return any(self._requested_timeouts.values())

    # --- controls

    def control(self, sender: Peer, control: Control) -> None:
        """Process a control of the class session that needs an attached session."""
        stream = self.streams[sender]
        partner_stream = self.streams[sender.other]
        match control:
            case SessionRequestTimeout():
                requested = self._requested_timeouts[sender]
                if len(requested) >= MAX_REQUESTS:
                    raise ResourceLimitExceeded(f"more than {MAX_REQUESTS} times {control.name} without an answer")
                requested.append(control.timeout)
            case SessionTimeout():
                self._grant(sender, control.timeout)
            case SessionCommandPoint():
                stream.point(control.command_id or 0, control.command_offset or 0)
            case SessionFlush():
                if control.expected:
                    if self._expecting[sender] >= MAX_REQUESTS:
                        raise ResourceLimitExceeded(f"more than {MAX_REQUESTS} times {control.name} without an answer")
                    self._expecting[sender] += 1
            case SessionExpected():
                if not self._expecting[sender.other]:
                    raise IllegalState(
                        "session.expected, where no session.flush asks for it", section="9.2 session.expected"
                    )
                self._expecting[sender.other] -= 1
                partner_stream.expect(control.commands or _NO_COMMANDS)
            case SessionConfirmed():
                partner_stream.confirm(control.commands or _NO_COMMANDS)
            case SessionCompleted():
                done: list[range] = []
                try:
                    partner_stream.complete(control.commands or _NO_COMMANDS, done)
                finally:
                    self._completed(sender.other, done)
            case SessionKnownCompleted():
                stream.know(control.commands or _NO_COMMANDS)
            case SessionGap():
                done = []
                try:
                    stream.skip(control.commands or _NO_COMMANDS, done)
                finally:
                    self._completed(sender, done)
            case _:
                raise AssertionError(control)

    def _grant(self, sender: Peer, granted: int | None) -> None:
        requested = self._requested_timeouts[sender.other]
        if not requested:
            raise IllegalState("session.timeout, where none was requested", section="9.2 session.timeout")
        wanted = requested.popleft()
        self.timeout = granted
        if wanted is not None and (granted is None or granted > wanted):
            raise IllegalArgument(
                f"a timeout of {granted} granted, where {wanted} was requested",
                section="9.2 session.request-timeout, maximum-granted-timeout",
            )

    def _completed(self, sender: Peer, done: list[range]) -> None:
        """Apply the completion of commands of `sender`."""
        if not done:
            return
        credits = (
            [each.credit for each in self.subscriptions.values()] if sender is SERVER else list(self.limits.values())
        )
        finished = done[0] if len(done) == 1 else CommandIds.of(done)
        for credit in credits:
            credit.completed(finished)
        ending = self._ending[sender]
        if not ending:
            return
        for position in [each for each in ending if each in finished]:
            ended = ending.pop(position)
            if isinstance(ended, Credit):
                ended.stopped(position)
            elif self.subscriptions.get(ended.destination) is ended:
                del self.subscriptions[ended.destination]
            else:
                ended.is_over = True

    # --- commands

    def command(self, sender: Peer, position: int, assembly: Assembly) -> bool:
        """Process a complete command; return `False` if it has no effect."""
        method: Command = assembly.method
        if not self.streams[sender].finish(position, method, is_sync=method.sync):
            return False
        if self.failed_by is not None:
            if self.failed_by is sender:
                raise IllegalState(f"{method.name} after an execution.exception", section="3.4.1.3")
            return False
        if sender not in SENDERS[method.name]:
            raise NotAllowed(f"{method.name} may not come from the {sender}", section=f"10 {method.name}")
        apply = _APPLY.get(type(method))
        if apply is not None:
            apply(self, sender, position, assembly)
        return True

    def _transfer(self, sender: Peer, position: int, assembly: Assembly) -> None:
        method: MessageTransfer = assembly.method
        destination, modes = method.destination or "", (method.accept_mode or 0, method.acquire_mode or 0)
        fault: ProtocolError | None = None
        credit = self.limits.get(destination) if sender is CLIENT else None
        if sender is SERVER:
            subscription = self.subscriptions.get(destination)
            if subscription is None:
                fault = NotFound(
                    f"a transfer to {destination!r}, which is no subscription", section="10.2 message.transfer"
                )
            else:
                subscription = subscription.current
                credit = subscription.credit
                if modes != subscription.modes:
                    fault = IllegalArgument(
                        f"a transfer with accept-mode {modes[0]} and acquire-mode {modes[1]}, where the subscription"
                        f" has {subscription.modes[0]} and {subscription.modes[1]}",
                        section="10.2 message.subscribe",
                    )
        self.transfers[sender].add(position, *modes)
        if credit is not None and not credit.is_unlimited:
            credit.spend(position, _content_size(assembly), is_first=_is_first_fragment(assembly))
        if fault:
            raise fault

    def _accept(self, sender: Peer, position: int, assembly: Assembly) -> None:
        in_transaction = sender is CLIENT and self.transaction.mode is TransactionMode.TX
        self.transfers[sender.other].accept(self._transferred(sender, assembly), in_transaction=in_transaction)

    def _reject(self, sender: Peer, position: int, assembly: Assembly) -> None:
        self.transfers[sender.other].reject(self._transferred(sender, assembly))

    def _release(self, sender: Peer, position: int, assembly: Assembly) -> None:
        self.transfers[sender.other].release(self._transferred(sender, assembly))

    def _acquire(self, sender: Peer, position: int, assembly: Assembly) -> None:
        self.transfers[sender.other].check_acquire(self._transferred(sender, assembly))

    def _transferred(self, sender: Peer, assembly: Assembly) -> list[range]:
        return self.streams[sender.other].positions(assembly.method.transfers or _NO_COMMANDS)

    def _result(self, sender: Peer, position: int, assembly: Assembly) -> None:
        method: ExecutionResult = assembly.method
        if method.command_id is None:
            raise IllegalArgument("a result for no command", section="10.1 execution.result")
        command = self.streams[sender.other].answer(method.command_id)
        value: Any = method.value
        if command.result is not None and not isinstance(value, command.result):
            raise IllegalArgument(
                f"a result of {command.name} that is no {command.result.name}", section=f"10 {command.name}"
            )
        if isinstance(command, MessageAcquire):
            self.transfers[sender].acquire(self.streams[sender].positions(value.transfers or _NO_COMMANDS))
        elif isinstance(command, DtxStart):
            self.transaction.started(command.xid, value.status or 0)

    def _exception(self, sender: Peer, position: int, assembly: Assembly) -> None:
        self.failed_by = sender
        command_id = assembly.method.command_id
        if command_id is not None:
            self.streams[sender.other].position(command_id)

    # --- subscriptions and credit

    def _subscribe(self, sender: Peer, position: int, assembly: Assembly) -> None:
        method: MessageSubscribe = assembly.method
        made = Subscription(
            method.destination or "", method.queue or "", (method.accept_mode or 0, method.acquire_mode or 0)
        )
        former = self.subscriptions.get(made.destination)
        if former is not None and not former.is_cancelled:
            raise NotAllowed(
                f"a second subscription {made.destination!r}",
                section="10.2 message.subscribe, unique-subscriber-destination",
            )
        if len(self.subscriptions) >= MAX_DESTINATIONS:
            raise ResourceLimitExceeded(f"more than {MAX_DESTINATIONS} subscriptions")
        made.former = former
        self.subscriptions[made.destination] = made
        if made.modes[0] == AcceptMode.NONE and self.transaction.mode is TransactionMode.TX:
            raise NotAllowed(
                "a subscription with accept-mode none after tx.select", section="10.3 tx.select, explicit-accepts"
            )

    def _cancel(self, sender: Peer, position: int, assembly: Assembly) -> None:
        destination = assembly.method.destination or ""
        subscription = self._subscription(destination, "10.2 message.cancel, subscription-not-found")
        subscription.is_cancelled = True
        self._end_with(sender, position, subscription)

    def _subscription(self, destination: str, section: str) -> Subscription:
        subscription = self.subscriptions.get(destination)
        if subscription is None or subscription.is_cancelled:
            raise NotFound(f"no subscription {destination!r}", section=section)
        return subscription

    def _credit(self, sender: Peer, method: Any) -> Credit:
        destination = method.destination or ""
        if sender is CLIENT:
            return self._subscription(destination, f"10.2 {method.name}").credit
        if destination not in self.limits:
            if len(self.limits) >= MAX_DESTINATIONS:
                raise ResourceLimitExceeded(f"more than {MAX_DESTINATIONS} destinations with a limit")
            self.limits[destination] = Credit(None)
        return self.limits[destination]

    def _set_flow_mode(self, sender: Peer, position: int, assembly: Assembly) -> None:
        credit = self._credit(sender, assembly.method)
        if credit.is_unlimited and sender is SERVER:  # there is a limit from its completion on
            self._stop(sender, position, assembly)
        credit.set_mode(assembly.method.flow_mode or 0)

    def _flow(self, sender: Peer, position: int, assembly: Assembly) -> None:
        method: MessageFlow = assembly.method
        self._credit(sender, method).add(method.unit or 0, method.value)

    def _stop(self, sender: Peer, position: int, assembly: Assembly) -> None:
        credit = self._credit(sender, assembly.method)
        credit.stop(position)
        self._end_with(sender, position, credit)

    def _end_with(self, sender: Peer, position: int, what: Credit | Subscription) -> None:
        """End credit or a subscription on the completion of a command."""
        ending = self._ending[sender]
        if len(ending) >= MAX_REQUESTS:
            raise ResourceLimitExceeded(f"more than {MAX_REQUESTS} times message.cancel, stop or flush incomplete")
        ending[position] = what

    # --- transactions

    def _tx(self, sender: Peer, position: int, assembly: Assembly) -> None:
        method = assembly.method
        if isinstance(method, TxSelect):
            unaccepted = any(
                each.modes[0] == AcceptMode.NONE for each in self.subscriptions.values() if not each.is_cancelled
            )
            self.transaction.select_tx(has_unaccepted=unaccepted)
            return
        self.transaction.check_tx(method.name)
        if isinstance(method, TxCommit):
            self.transfers[SERVER].commit()
        else:
            self.transfers[SERVER].roll_back()

    def _dtx(self, sender: Peer, position: int, assembly: Assembly) -> None:
        method = assembly.method
        match method:
            case DtxSelect():
                self.transaction.select_dtx()
            case DtxStart():
                self.transaction.start(method.xid, join=method.join, resume=method.resume)
            case DtxEnd():
                self.transaction.end(method.xid, fail=method.fail, suspend=method.suspend)
            case _:
                self.transaction.check_outcome(method.name, method.xid)


def _content_size(assembly: Assembly) -> int:
    """Return the credit that a transfer costs: the payload of its header and body frames (section 10.2,
    byte-accounting).
    """
    return sum([frame.size for frame in assembly.frames if frame.kind >= SegmentType.HEADER])


def _is_first_fragment(assembly: Assembly) -> bool:
    fragment = assembly.header.fragment if assembly.header is not None else None
    return fragment is None or fragment.first


_NO_COMMANDS = SequenceSet()

_APPLY: dict[type, Callable[[Session, Peer, int, Assembly], None]] = {
    MessageTransfer: Session._transfer,
    MessageAccept: Session._accept,
    MessageReject: Session._reject,
    MessageRelease: Session._release,
    MessageAcquire: Session._acquire,
    ExecutionResult: Session._result,
    ExecutionException: Session._exception,
    MessageSubscribe: Session._subscribe,
    MessageCancel: Session._cancel,
    MessageSetFlowMode: Session._set_flow_mode,
    MessageFlow: Session._flow,
    MessageStop: Session._stop,
    MessageFlush: Session._stop,
    TxSelect: Session._tx,
    TxCommit: Session._tx,
    TxRollback: Session._tx,
    DtxSelect: Session._dtx,
    DtxStart: Session._dtx,
    DtxEnd: Session._dtx,
    DtxPrepare: Session._dtx,
    DtxCommit: Session._dtx,
    DtxRollback: Session._dtx,
    DtxForget: Session._dtx,
}
