"""Random programs of a client and a broker on sessions of 0-10, and what they put on the wire, frame by frame.

Both send what they have to say at any time, also wrong references, and the frames of different channels and peers come
in any order. A broker refuses nothing by itself: the trace of all frames says what is true.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from amqproxy.amqp010.commands import (
    DtxCommit,
    DtxEnd,
    DtxRollback,
    DtxSelect,
    DtxStart,
    ExecutionException,
    ExecutionResult,
    ExecutionSync,
    MessageAccept,
    MessageCancel,
    MessageFlow,
    MessageReject,
    MessageRelease,
    MessageSubscribe,
    MessageTransfer,
    QueueDeclare,
    QueueQuery,
    TxCommit,
    TxRollback,
    TxSelect,
)
from amqproxy.amqp010.controls import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionHeartbeat,
    SessionAttach,
    SessionAttached,
    SessionCommandPoint,
    SessionCompleted,
    SessionDetach,
    SessionDetached,
)
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.properties import DeliveryProperties, Header
from amqproxy.amqp010.results import QueueQueryResult, XaResult, Xid
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.peer import CLIENT, SERVER, Peer
from tests.taps.trace.amqp010.traced import START, frames_of, ids
from tests.taps.trace.simulation import Passed

ACTIONS = {
    "frame": 60,
    "publish": 12,
    "deliver": 10,
    "complete": 8,
    "accept": 7,
    "subscribe": 3,
    "query": 3,
    "result": 3,
    "release": 2,
    "reject": 2,
    "server accept": 2,
    "server reject": 1,
    "sync": 2,
    "flow": 1,
    "cancel": 1,
    "client completes": 2,
    "end transaction": 4,
    "branch": 3,
    "heartbeat": 1,
    "detach": 1,
    "detached": 2,
    "exception": 0.3,
    "close": 0.1,
}

CHANNELS = (1, 2)


class _Session:
    """A session on one channel, as far as its program needs it."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.is_attached = self.is_ended = self.is_closing = False
        self.sent: dict[Peer, list[Method]] = {peer: [] for peer in Peer}
        self.queues: dict[str, str] = {}
        self.branch = 0
        self.is_in_branch = False
        self.name = b""


class Program:
    """Frames of a connection, in `passed`, each with its time in nanoseconds."""

    def __init__(self, seed: int) -> None:
        self._random = random = Random(seed)
        self.passed: list[Passed] = []
        self._ts_ns = 0
        self._bodies = 0
        self._waiting: dict[tuple[Peer, int], list[tuple[Frame, Callable[[], object] | None]]] = {}
        self._sessions: dict[int, _Session] = {}
        self._is_closed = False
        for sender, control in START:
            self._say(sender, 0, control)
        self._send_all()
        names, weights = list(ACTIONS), list(ACTIONS.values())
        for name in random.choices(names, weights, k=random.randrange(60, 500)):
            self._act(name, random.choice((1, 1, *CHANNELS)))
            if self._is_closed:
                break
        self._send_all()
        self.ts_ns = self._ts_ns + 1

    # --- frames

    def _say(
        self, sender: Peer, channel: int, method: Method, then: Callable[[], object] | None = None, **content: Any
    ) -> None:
        frames = frames_of(channel, method, **content)
        waiting = self._waiting.setdefault((sender, channel), [])
        waiting += [(frame, None) for frame in frames[:-1]]
        waiting.append((frames[-1], then))

    def _pass_one(self, sender: Peer, channel: int) -> None:
        waiting = self._waiting[sender, channel]
        frame, then = waiting.pop(0)
        if not waiting:
            del self._waiting[sender, channel]
        self._ts_ns += self._random.choice((0, 0, 1))
        self.passed.append(Passed(sender, self._ts_ns, frame))
        if then is not None:
            then()

    def _send_all(self) -> None:
        while self._waiting:
            self._pass_one(*next(iter(self._waiting)))

    def _command(self, sender: Peer, channel: int, method: Method, **content: Any) -> None:
        sent = self._sessions[channel].sent[sender]
        self._say(sender, channel, method, lambda: sent.append(method), **content)

    # --- what the peers do

    def _act(self, name: str, channel: int) -> None:
        random = self._random
        if name == "frame":
            for _ in range(random.choice((1, 2, 5))):
                if self._waiting:
                    self._pass_one(*random.choice(list(self._waiting)))
            return
        if name == "heartbeat":
            self._say(random.choice((CLIENT, SERVER)), 0, ConnectionHeartbeat())
            return
        if name == "close":
            self._close()
            return
        session = self._sessions.get(channel)
        if session is None or session.is_ended:
            self._attach(channel)
        elif session.is_attached:
            getattr(self, "_" + name.replace(" ", "_"))(channel, session)

    def _close(self) -> None:
        by = self._random.choice((CLIENT, SERVER))
        for _ in range(self._random.randrange(9)):
            self._act("frame", 1)
        self._waiting.clear()
        self._say(by, 0, ConnectionClose(reply_code=320, reply_text="bye"))
        self._say(by.other, 0, ConnectionCloseOk())
        self._is_closed = True

    def _attach(self, channel: int) -> None:
        random = self._random
        session = self._sessions[channel] = _Session(random.choice(("normal", "normal", "normal", "tx", "dtx")))
        session.name = b"%d-%d" % (channel, len(self.passed))
        waits = random.random() < 0.7
        self._say(CLIENT, channel, SessionAttach(name_=session.name))
        if waits:
            self._send_all()
        point = 0 if random.random() < 0.95 else 7

        def attached() -> None:
            session.is_attached = True

        self._say(CLIENT, channel, SessionCommandPoint(command_id=point, command_offset=0))
        if session.kind == "tx":
            self._command(CLIENT, channel, TxSelect())
        elif session.kind == "dtx":
            self._command(CLIENT, channel, DtxSelect())
        if not waits:
            self._send_all()
        self._say(SERVER, channel, SessionAttached(name_=session.name))
        self._say(SERVER, channel, SessionCommandPoint(command_id=0, command_offset=0), attached)

    def _body(self) -> bytes:
        self._bodies += 1
        return b"%06d" % self._bodies + b"x" * self._random.choice((0, 0, 0, 1500, 3000))

    def _some(self, sent: list[Method], kind: type[Method] | None = None) -> SequenceSet | None:
        """Some ids of commands that were sent, often of one kind, a few at a time."""
        found = [place for place, each in enumerate(sent) if kind is None or isinstance(each, kind)]
        if not found:
            return None
        random = self._random
        place = random.randrange(max(0, len(found) - 6), len(found))
        chosen = found[place : place + random.choice((1, 1, 2, 4))]
        if random.random() < 0.2:
            chosen = chosen[::2]
        return ids(*chosen)

    def _publish(self, channel: int, session: _Session) -> None:
        transfer = MessageTransfer(
            destination=self._random.choice(("", "amq.topic")),
            accept_mode=self._random.choice((0, 1, None)),
            acquire_mode=0,
        )
        header = Header((DeliveryProperties(routing_key="q"),))
        self._command(CLIENT, channel, transfer, header=header, body=self._body())

    def _subscribe(self, channel: int, session: _Session) -> None:
        destination = self._random.choice(("a", "b", "c"))
        subscribe = MessageSubscribe(
            queue=self._random.choice(("one", "two")), destination=destination, accept_mode=0, acquire_mode=0
        )
        if destination not in session.queues:
            session.queues[destination] = subscribe.queue or ""
            self._command(CLIENT, channel, subscribe)

    def _cancel(self, channel: int, session: _Session) -> None:
        if session.queues:
            destination = self._random.choice(list(session.queues))
            del session.queues[destination]
            self._command(CLIENT, channel, MessageCancel(destination=destination))

    def _deliver(self, channel: int, session: _Session) -> None:
        if session.queues:
            transfer = MessageTransfer(
                destination=self._random.choice(list(session.queues)),
                accept_mode=self._random.choice((0, 0, 0, 1)),
                acquire_mode=self._random.choice((0, 0, 1)),
            )
            header = Header((DeliveryProperties(exchange="x", routing_key="k"),))
            self._command(SERVER, channel, transfer, header=header, body=self._body())

    def _complete(self, channel: int, session: _Session) -> None:
        sent = session.sent[CLIENT]
        if self._random.random() < 0.5 and sent:
            self._say(SERVER, channel, SessionCompleted(commands=ids((0, len(sent) - 1))))
        elif (commands := self._some(sent)) is not None:
            self._say(SERVER, channel, SessionCompleted(commands=commands))

    def _client_completes(self, channel: int, session: _Session) -> None:
        commands = self._some(session.sent[SERVER])
        if commands is not None:
            self._say(CLIENT, channel, SessionCompleted(commands=commands))

    def _accept(self, channel: int, session: _Session) -> None:
        commands = self._some(session.sent[SERVER], None if self._random.random() < 0.05 else MessageTransfer)
        if commands is not None:
            self._command(CLIENT, channel, MessageAccept(transfers=commands))

    def _release(self, channel: int, session: _Session) -> None:
        commands = self._some(session.sent[SERVER], MessageTransfer)
        if commands is not None:
            self._command(CLIENT, channel, MessageRelease(transfers=commands))

    def _reject(self, channel: int, session: _Session) -> None:
        commands = self._some(session.sent[SERVER], MessageTransfer)
        if commands is not None:
            self._command(CLIENT, channel, MessageReject(transfers=commands, code=0))

    def _server_accept(self, channel: int, session: _Session) -> None:
        commands = self._some(session.sent[CLIENT], MessageTransfer)
        if commands is not None:
            self._command(SERVER, channel, MessageAccept(transfers=commands))

    def _server_reject(self, channel: int, session: _Session) -> None:
        commands = self._some(session.sent[CLIENT], MessageTransfer)
        if commands is not None:
            self._command(SERVER, channel, MessageReject(transfers=commands, code=self._random.choice((0, 1))))

    def _query(self, channel: int, session: _Session) -> None:
        declare = QueueDeclare(queue="one", arguments=None)
        self._command(CLIENT, channel, self._random.choice((QueueQuery(queue="one"), declare)))

    def _result(self, channel: int, session: _Session) -> None:
        found = [place for place, each in enumerate(session.sent[CLIENT]) if isinstance(each, (QueueQuery, DtxStart))]
        branches = [
            place for place, each in enumerate(session.sent[CLIENT]) if isinstance(each, (DtxCommit, DtxRollback))
        ]
        if branches and self._random.random() < 0.5:
            status = self._random.choice((0, 0, 0, 6))
            self._command(SERVER, channel, ExecutionResult(command_id=branches[-1], value=XaResult(status=status)))
        elif found:
            place = self._random.choice(found[-3:])
            is_query = isinstance(session.sent[CLIENT][place], QueueQuery)
            value = QueueQueryResult(queue="one") if is_query else XaResult(status=0)
            self._command(SERVER, channel, ExecutionResult(command_id=place, value=value))

    def _sync(self, channel: int, session: _Session) -> None:
        self._command(CLIENT, channel, ExecutionSync())

    def _flow(self, channel: int, session: _Session) -> None:
        self._command(CLIENT, channel, MessageFlow(destination="a", unit=0, value=10))

    def _end_transaction(self, channel: int, session: _Session) -> None:
        if session.kind == "tx":
            self._command(CLIENT, channel, self._random.choice((TxCommit(), TxCommit(), TxRollback())))

    def _branch(self, channel: int, session: _Session) -> None:
        if session.kind != "dtx":
            return
        xid = Xid(format=1, global_id=b"%d" % channel, branch_id=b"%d" % session.branch)
        if session.is_in_branch:
            session.is_in_branch = False
            self._command(CLIENT, channel, DtxEnd(xid=xid))
            self._command(CLIENT, channel, self._random.choice((DtxCommit(xid=xid), DtxRollback(xid=xid))))
        else:
            session.branch += self._random.choice((0, 1))
            session.is_in_branch = True
            self._command(
                CLIENT,
                channel,
                DtxStart(xid=Xid(format=1, global_id=b"%d" % channel, branch_id=b"%d" % session.branch)),
            )

    def _detach(self, channel: int, session: _Session) -> None:
        if not session.is_closing:
            session.is_closing = True
            self._say(CLIENT, channel, SessionDetach(name_=session.name))
            self._send_all()

    def _detached(self, channel: int, session: _Session) -> None:
        if session.is_closing and not session.is_ended:
            session.is_ended = True
            self._say(SERVER, channel, SessionDetached(name_=session.name))
            self._send_all()

    def _exception(self, channel: int, session: _Session) -> None:
        sent = session.sent[CLIENT]
        if not sent or session.is_closing:
            return
        exception = ExecutionException(
            error_code=404,
            command_id=len(sent) - 1,
            failing_class_code=sent[-1].index >> 8,
            failing_command_code=sent[-1].index & 255,
            description="no",
        )
        self._command(SERVER, channel, exception)
        session.is_closing = True
