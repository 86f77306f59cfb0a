"""One client's connection and the one to the broker that serves it, joined frame by frame.

This is where the two legs meet, and the only place that knows both. As long as no rule says
otherwise, whole frames leave as the very octets that came in; what is seen of them moves both legs'
`Connection`s, and the counters. However a session ends, both peers are told in a way they know.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from enum import Enum, auto
from typing import NamedTuple, Protocol

import structlog
import trio

from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import ConnectionForced, InternalError, ProtocolError, Scope
from amqproxy.amqp091.frames import EVERY_METHOD, METHOD, Frame
from amqproxy.amqp091.grammar import CLIENT, SERVER, Peer, State
from amqproxy.amqp091.methods import (
    BY_NAME,
    ChannelClose,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpenOk,
    ConnectionTuneOk,
)
from amqproxy.amqp091.protocol_header import HEADER, NAME, recognise
from amqproxy.config import Limits
from amqproxy.proxy.leg import TAKES_CLOSE, Leg
from amqproxy.proxy.transport import Broken, Transport
from amqproxy.proxy.upstream import Unreachable
from amqproxy.taps.metrics import Metrics, code_label

HEADER_SIZE = len(HEADER)


def _all_but(*names: str) -> bytes:
    wanted = bytearray(EVERY_METHOD)
    for name in names:
        wanted[BY_NAME[name].index] = 0
    return bytes(wanted)


STATEFUL = {
    CLIENT: _all_but("basic.publish", "basic.ack", "basic.nack", "basic.reject"),
    SERVER: _all_but("basic.deliver", "basic.return", "basic.ack", "basic.nack"),
}
"""Of each sender, the methods that change what the legs have agreed. The others, which are nearly
all there are, need not be handed over to be relayed."""


class Watcher(Protocol):
    """Is shown everything that a session relays, once it is decided, and before it is sent on."""

    def saw_protocol_header(self, session: Session, octets: bytes) -> None:
        """The client's first octets: eight, or fewer when they are of no AMQP."""

    def saw_frames(self, session: Session, sender: Peer, frames: Sequence[Frame]) -> None: ...

    def saw_violation(self, session: Session, sender: Peer, error: ProtocolError) -> None: ...


class End(NamedTuple):
    """Who ended a session ("client", "server" or "proxy"), with which reply code (0: none), and why."""

    by: str
    code: int
    reason: str
    is_abnormal: bool = True


class Phase(Enum):
    """What becomes of the frames that arrive."""

    RELAYING = auto()
    """All are passed on."""
    FINISHING = auto()
    """Draining: all but the content that the server begins only now."""
    CLOSING = auto()
    """Drained: the client has been told to go; what it sent before its close-ok is passed on."""


class Ending(Enum):
    """How one direction came to its end."""

    EOF = auto()
    """The source has closed its half."""
    DEAF = auto()
    """The target takes no more. What it said last may still be on its way, in the other direction."""
    OVER = auto()
    """The client has answered our close."""


class Session:
    """One client's connection, from its first octet to the last one of the broker's.

    `number` counts the sessions of this run; `name` is both ends' addresses as the client sees
    them, its own first. `dial` opens the way to the broker.
    """

    def __init__(
        self,
        number: int,
        transport: Transport,
        name: str,
        dial: Callable[[], Awaitable[Transport]],
        limits: Limits,
        metrics: Metrics,
        watcher: Watcher | None = None,
    ) -> None:
        self.number = number
        self.name = name
        self.legs: dict[Peer, Leg] = {CLIENT: _leg(CLIENT, transport, limits, metrics)}
        self._dial = dial
        self._limits = limits
        self._metrics = metrics
        self._watcher = watcher
        self._log = structlog.get_logger().bind(session=number, client=name.partition("-")[0])
        self._scope = trio.CancelScope()
        self._nursery: trio.Nursery | None = None
        self._phase = Phase.RELAYING
        self._unfinished: dict[Peer, set[int]] = {}
        self._channel_count = 0
        self._end: End | None = None
        self._farewells: dict[Peer, ProtocolError] = {}

    @property
    def client(self) -> Leg:
        return self.legs[CLIENT]

    @property
    def state(self) -> State:
        """Where the client's leg is in its life."""
        return self.client.connection.state

    # --- from beginning to end

    async def run(self) -> None:
        """Serve the client until it is gone, or until it had to go."""
        self._scope.deadline = trio.current_time() + self._limits.handshake_timeout
        try:
            try:
                with self._scope:
                    await self._serve()
            except Exception:  # noqa: BLE001
                # The one door: what goes wrong here must not be another client's trouble.
                self._log.exception("session failed")
                self._finish(End("proxy", _FAILURE.code, "internal error"))
                self._farewells = {CLIENT: _FAILURE, SERVER: _FAILURE}
            if self._scope.cancelled_caught:
                self._finish(End("proxy", 0, f"no connection.open-ok within {self._limits.handshake_timeout:g} s"))
            await self._say_farewells()
        finally:
            with trio.CancelScope(shield=True):
                for leg in self.legs.values():
                    await leg.transport.aclose()
            self._count_channels(0)
            self._note_end()

    async def _serve(self) -> None:
        rest = await self._receive_protocol_header()
        if rest is None:
            return
        try:
            transport = await self._dial()
        except Unreachable as error:
            self._metrics.upstream_failures.labels(error.kind).inc()
            self._finish(End("proxy", 0, f"upstream {error}"))
            return
        self.legs[SERVER] = upstream = _leg(SERVER, transport, self._limits, self._metrics)
        for leg in self.legs.values():
            leg.connection.receive_header(CLIENT, HEADER)
            if self._watcher is None:
                leg.reader.want(STATEFUL[leg.peer], content=False)
        with suppress(Broken):  # its own direction will say what happened
            await transport.send(HEADER)
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self._carry, upstream, self.client)
            await self._carry(self.client, upstream, rest)

    async def _receive_protocol_header(self) -> bytes | None:
        """What came after the header; None when the client is not to be served. Section 4.2.2."""
        octets = b""
        protocol = None
        while protocol is None:
            try:
                data = await self.client.transport.receive()
            except Broken:
                data = b""
            if not data:
                self._finish(End("client", 0, "closed before a protocol header", is_abnormal=bool(octets)))
                return None
            octets += data
            protocol = recognise(octets)
        if self._watcher is not None:
            self._watcher.saw_protocol_header(self, octets[:HEADER_SIZE])
        if protocol == NAME:
            return octets[HEADER_SIZE:]
        self._metrics.refused.labels("protocol").inc()
        self._finish(End("proxy", 0, f"the client speaks {protocol}, not AMQP {NAME}"))
        await self.client.turn_away(self._limits.close_timeout)
        return None

    async def _carry(self, source: Leg, target: Leg, data: bytes = b"") -> None:
        """One direction, from its first frame to its end, and what that end means for the session."""
        assert self._nursery is not None
        scope = self._nursery.cancel_scope
        is_gone = False
        try:
            ending = await self._relay(source, target, data)
        except ProtocolError as error:
            self._refuse(source.peer, error)
            scope.cancel()
            return
        except Broken as error:
            ending, is_gone, reason = Ending.EOF, True, str(error)
        else:
            reason = "closed without connection.close"
        if ending is Ending.OVER or self._phase is Phase.CLOSING:
            await self._part(self.client)
            scope.cancel()
        elif ending is Ending.DEAF:
            scope.deadline = trio.current_time() + self._limits.close_timeout
        elif source.peer is SERVER and self.state in TAKES_CLOSE:
            self._lose_upstream(reason)
            scope.cancel()
        else:
            self._finish(End(str(source.peer), 0, f"{source.name} {reason}"))
            if is_gone:
                scope.cancel()
                return
            scope.deadline = trio.current_time() + self._limits.close_timeout
            try:
                await target.transport.send(source.reader.held)
                await target.transport.send_eof()
            except Broken:
                pass

    # --- the data path

    async def _relay(self, source: Leg, target: Leg, data: bytes) -> Ending:
        """Pass frames on until there are no more. `Broken` when the source is gone, `ProtocolError`
        when it sent what it may not: what it sent before that has then been passed on.
        """
        reader = source.reader
        receive, send = source.transport.receive, target.transport.send
        observe = self._metrics.latency.observe
        data = data or await receive()
        while data:
            received = time.perf_counter()
            frames = reader.feed(data)
            octets = reader.taken
            error = reader.error
            if frames or self._phase is not Phase.RELAYING:
                octets, error = self._follow(source, target, frames)
            try:
                await send(octets)
            except Broken:
                return Ending.DEAF
            if error is not None:
                raise error
            if self._phase is Phase.CLOSING and self.state is not State.CLOSED_BY_SERVER:
                return Ending.OVER
            observe(time.perf_counter() - received)
            data = await receive()
        return Ending.EOF

    def _follow(self, source: Leg, target: Leg, frames: list[Frame]) -> tuple[bytes | memoryview, ProtocolError | None]:
        """Let both legs see the frames: the octets to pass on, and what is wrong after them."""
        reader, sender = source.reader, source.peer
        error = reader.error
        passed: list[Frame] = []
        for frame in frames:
            try:
                source.connection.receive(sender, frame)
                if self._passes(sender, frame):
                    target.connection.receive(sender, frame)
                    passed.append(frame)
            except ProtocolError as found:
                if found.scope is Scope.CONNECTION:
                    error = found
                    break
                passed.append(frame)  # what is wrong on its channel only is for the broker to answer
            if frame.kind == METHOD:
                self._note_method(sender, frame)
        self._count_channels(len(self.client.connection.channels))
        if self._watcher is not None:
            self._watcher.saw_frames(self, sender, passed)
        if self._phase is Phase.RELAYING:
            if error is None or error is reader.error:
                return reader.taken, error
            return memoryview(reader.taken)[: frame.offset - (reader.offset - len(reader.taken))], error
        self._check_unfinished(source)
        return b"".join([frame.raw for frame in passed]), error

    def _passes(self, sender: Peer, frame: Frame) -> bool:
        """Is the frame passed on?"""
        if self._phase is Phase.RELAYING:
            return True
        if self._phase is Phase.CLOSING:
            return sender is CLIENT and self.state is State.CLOSED_BY_SERVER
        if sender is CLIENT or frame.channel in self._unfinished[SERVER]:
            return True
        return frame.kind == METHOD and not frame.method.carries_content

    # --- draining: stop at the end of a command, and lose nothing that was said

    def drain(self) -> None:
        """End the session with 320 as soon as the contents under way are complete."""
        if self.state not in TAKES_CLOSE or self._nursery is None:
            self.abort("drained")
            return
        self._phase = Phase.FINISHING
        for peer, leg in self.legs.items():
            leg.reader.want(EVERY_METHOD, content=True)
            lanes = leg.reader.lanes.items()
            self._unfinished[peer] = {number for number, lane in lanes if lane.expects != METHOD}
        self._check_unfinished(self.client)

    def abort(self, reason: str) -> None:
        """End the session where it stands."""
        self._finish(End("proxy", 320, reason))
        self._scope.cancel()

    def _check_unfinished(self, leg: Leg) -> None:
        """Close once no content is left that was under way when the drain began."""
        unfinished = self._unfinished[leg.peer]
        lanes = leg.reader.lanes
        unfinished -= {n for n in unfinished if n not in lanes or lanes[n].expects == METHOD}
        if self._phase is Phase.FINISHING and not any(self._unfinished.values()) and self.state in TAKES_CLOSE:
            assert self._nursery is not None
            self._phase = Phase.CLOSING
            self._finish(End("proxy", _SHUTDOWN.code, "drained", is_abnormal=False))
            self._farewells[SERVER] = _SHUTDOWN
            self._nursery.start_soon(self._ask_client_to_go)

    async def _ask_client_to_go(self) -> None:
        with suppress(Broken):  # its own direction ends the session
            await self.client.say(0, ConnectionClose(_SHUTDOWN.code, _SHUTDOWN.reply_text))

    # --- the end

    def fall_silent(self, peer: Peer) -> None:
        """End the session because `peer` has missed its heartbeats."""
        if peer is SERVER:
            self._lose_upstream("silent for too long")
        else:
            self._finish(End("proxy", 0, "client silent for too long"))
            self._farewells[SERVER] = ConnectionForced("client silent for too long")
        self._scope.cancel()

    def _lose_upstream(self, reason: str) -> None:
        self._metrics.upstream_failures.labels("lost").inc()
        self._finish(End("server", 0, f"upstream {reason}"))
        self._farewells[CLIENT] = ConnectionForced(f"upstream {reason}")

    def _refuse(self, sender: Peer, error: ProtocolError) -> None:
        """End the session because of what `sender` sent; the other side is told that it was not its fault."""
        self._metrics.protocol_errors.labels(str(sender), str(error.code)).inc()
        if self._watcher is not None:
            self._watcher.saw_violation(self, sender, error)
        self._finish(End("proxy", error.code, f"the {sender} broke the protocol: {error}"))
        self._farewells[sender] = error
        self._farewells[sender.other] = ConnectionForced(f"the {sender} broke the protocol: {error.reply_text}")

    def _finish(self, end: End) -> None:
        """Note how the session ends; the first to say so is right."""
        if self._end is None:
            self._end = end

    async def _say_farewells(self) -> None:
        """Send connection.close to those who are to hear why the session ended."""
        async with trio.open_nursery() as nursery:
            for peer, error in self._farewells.items():
                if peer in self.legs:
                    nursery.start_soon(self.legs[peer].say_goodbye, error, self._limits.close_timeout)

    async def _part(self, leg: Leg) -> None:
        """Answer a close that crossed ours."""
        if leg.connection.state is State.CLOSED_BY_BOTH:
            with suppress(Broken):
                await leg.say(0, ConnectionCloseOk())

    # --- what is told of it

    def _note_method(self, sender: Peer, frame: Frame) -> None:
        match frame.method:
            case ConnectionTuneOk(frame_max=0):
                for leg in self.legs.values():
                    leg.reader.set_frame_max(self._limits.frame_max)
            case ConnectionOpenOk():
                self._scope.deadline = math.inf
                self._metrics.opened.inc()
                connection = self.client.connection
                self._log.info("connection open", vhost=connection.virtual_host, heartbeat=connection.heartbeat)
            case ConnectionClose() as close:
                reason = close.reply_text or "closed"
                self._finish(End(str(sender), close.reply_code, reason, is_abnormal=close.reply_code != 200))
            case ChannelOpenOk():
                self._metrics.channels_opened.inc()
            case ChannelClose() as close:
                self._metrics.channel_closes.labels(str(sender), code_label(close.reply_code)).inc()
            case _:
                pass

    def _count_channels(self, count: int) -> None:
        if count != self._channel_count:
            self._metrics.channels.inc(count - self._channel_count)
            self._channel_count = count

    def _note_end(self) -> None:
        end = self._end or End("proxy", 0, "cancelled")
        self._metrics.closes.labels(end.by, code_label(end.code) if end.code else "none").inc()
        log = self._log.warning if end.is_abnormal else self._log.info
        log("connection closed", by=end.by, code=end.code or None, reason=end.reason)


def _leg(peer: Peer, transport: Transport, limits: Limits, metrics: Metrics) -> Leg:
    connection = Connection(
        initial_frame_max=limits.initial_frame_max, tracks_deliveries=False, tallies=metrics.tallies
    )
    return Leg(peer, transport, connection)


_FAILURE = InternalError("the proxy failed; its log says how")
_SHUTDOWN = ConnectionForced("the proxy is shutting down")
