"""A session that a trace and the state machine of `amqproxy.amqp010` watch, with peers that act at random."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp010.commands import (
    ExecutionSync,
    MessageAccept,
    MessageReject,
    MessageRelease,
    MessageSubscribe,
    MessageTransfer,
    TxCommit,
    TxRollback,
    TxSelect,
)
from amqproxy.amqp010.connection import Connection
from amqproxy.amqp010.controls import SessionAttach, SessionAttached, SessionCommandPoint, SessionCompleted
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp010.session import Session
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.trace.amqp010.connection_trace import Amqp010Trace
from amqproxy.taps.trace.events import TraceEvent
from tests.taps.trace.amqp010.traced import START, frames_of, ids, published

NAMES = [
    *("publish", "publish", "sync", "deliver", "deliver", "complete", "accept", "release", "reject"),
    *("server-accept", "server-reject", "commit", "rollback", "client-completes"),
]


class Watched:
    """A session that both of them watch."""

    def __init__(self, *, is_transactional: bool, **options: Any) -> None:
        self.machine = Connection(deviations=[])
        self.trace = Amqp010Trace(**options)
        self.events: list[TraceEvent] = []
        self.passed: list[tuple[Peer, list[Frame], int]] = []
        self.now = 0
        for peer in Peer:
            self.machine.receive_header(peer, HEADER)
        self.trace.feed_protocol_header(0)
        for sender, control in START:
            self.send(sender, control, channel=0)
        self.send(CLIENT, SessionAttach(name_=b"s"))
        self.send(SERVER, SessionAttached(name_=b"s"))
        for peer in Peer:
            self.send(peer, SessionCommandPoint(command_id=0, command_offset=0))
        self.send(CLIENT, MessageSubscribe(queue="q", destination="d", accept_mode=0, acquire_mode=0))
        if is_transactional:
            self.send(CLIENT, TxSelect())
        self.is_transactional = is_transactional

    @property
    def session(self) -> Session:
        session = self.machine.channels[1].session
        assert session is not None
        return session

    def send(self, sender: Peer, method: Method, *, channel: int = 1, **content: Any) -> None:
        self.now += 1
        frames = frames_of(channel, method, **content)
        for frame in frames:
            self.machine.receive(sender, frame)
        self.passed.append((sender, frames, self.now))
        self.events += self.trace.feed(sender, frames, self.now)

    def act(self, name: str, ranges: list[tuple[int, int]], size: int) -> None:
        commands = ids(*[(first, first + more) for first, more in ranges])
        if name in ("accept", "release", "reject", "server-accept", "server-reject"):
            # The machine applies nothing of a set that names what was not sent.
            sent = self.session.streams[CLIENT if name.startswith("server") else SERVER].seen or 0
            commands = ids(*[(first, min(first + more, sent - 1)) for first, more in ranges if first < sent])
        match name:
            case "publish":
                transfer, header = published(accept_mode=size % 2)
                self.send(CLIENT, transfer, header=header, body=b"x" * 900 * size)
            case "sync":
                self.send(CLIENT, ExecutionSync())
            case "deliver":
                transfer = MessageTransfer(destination="d", accept_mode=0, acquire_mode=0)
                self.send(SERVER, transfer, body=b"x" * 900 * size)
            case "complete":
                self.send(SERVER, SessionCompleted(commands=commands))
            case "client-completes":
                self.send(CLIENT, SessionCompleted(commands=commands))
            case "accept":
                self.send(CLIENT, MessageAccept(transfers=commands))
            case "release":
                self.send(CLIENT, MessageRelease(transfers=commands))
            case "reject":
                self.send(CLIENT, MessageReject(transfers=commands, code=0))
            case "server-accept":
                self.send(SERVER, MessageAccept(transfers=commands))
            case "server-reject":
                self.send(SERVER, MessageReject(transfers=commands, code=1))
            case "commit" if self.is_transactional:
                self.send(CLIENT, TxCommit())
            case "rollback" if self.is_transactional:
                self.send(CLIENT, TxRollback())
            case _:
                pass
