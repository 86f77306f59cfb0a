"""One client's connection and the one to the broker that serves it, joined frame by frame.

This is where the two legs meet, and the only place that knows both. Unless a rule changes them, whole frames are sent
on as the bytes that were received; what is seen of them moves both legs' `Connection`s, and the counters. However a
session ends, each peer is sent a close that it understands.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, suppress
from enum import Enum, auto

import msgspec
import trio

from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import ProtocolError, ResourceError, Scope
from amqproxy.amqp091.frame import FRAME_MIN_SIZE, HEARTBEAT_FRAME, METHOD, Frame
from amqproxy.amqp091.frame_reader import EVERY_METHOD, FrameReader
from amqproxy.amqp091.methods import ConnectionClose, ConnectionOpenOk, ConnectionStartOk, ConnectionTuneOk, Method
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import CLIENT, SERVER, ConnectionState, Peer
from amqproxy.config import Limits
from amqproxy.proxy.closing import SHUTDOWN, Closing, culprit_of
from amqproxy.proxy.drain import Drain, DrainStart, drain_start
from amqproxy.proxy.effects import ConnectionRefusal, InterceptorFault
from amqproxy.proxy.faulty_transport import FaultyTransport
from amqproxy.proxy.handshake import PacedHandshake
from amqproxy.proxy.interceptor import Interceptor
from amqproxy.proxy.leg import Leg
from amqproxy.proxy.memory_budget import SESSION_MEMORY, MemoryBudget, MemoryShare
from amqproxy.proxy.mirror_drops import DropReason
from amqproxy.proxy.mirror_publisher import MirrorLogin
from amqproxy.proxy.mirrors import Mirrors
from amqproxy.proxy.opening import Opening, receive_opening, with_tls
from amqproxy.proxy.rule_log import RuleLog
from amqproxy.proxy.session_report import SessionEnd, SessionReport
from amqproxy.proxy.session_state import SESSION_TRANSITIONS, SessionEvent, SessionState
from amqproxy.proxy.stateful import STATEFUL
from amqproxy.proxy.tunnel import Tunnel
from amqproxy.proxy.upstream import Unreachable
from amqproxy.rules.client_info import updated_client
from amqproxy.rules.context import Client
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.verdict import Impairment, MirroredCopy, Verdict
from amqproxy.sockets.transport import Transport, TransportBroken
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.tap import Tap

QUANTUM = 0.002
"""Seconds of work of one direction after which all other tasks have their turn."""

QUANTUM_FRAMES = 64
"""Frames that are looked at before the time is."""


class DirectionEnding(Enum):
    """How one direction came to its end."""

    EOF = auto()
    """The source has closed its half."""
    DEAF = auto()
    """The target takes no more. What it said last may still be on its way, in the other direction."""
    OVER = auto()
    """The client has answered the close that ended its drain."""


class Session:
    """One client's connection, from its first byte to the last one of the broker's.

    `number` counts the sessions of this run; `name` is both ends' addresses as the client sees
    them, its own first. `dial` opens the way to the broker. `client` is what is known of the client so far,
    `rules` what it has to obey; without any, frames pass as they came. `on_hold` is told the number of what waits for
    somebody's word from then on.
    """

    def __init__(
        self,
        number: int,
        transport: Transport,
        name: str,
        dial: Callable[[], Awaitable[Transport]],
        limits: Limits,
        metrics: Metrics,
        tap: Tap | None = None,
        *,
        rules: RuleSet | None = None,
        client: Client | None = None,
        mirrors: Mirrors | None = None,
        memory: MemoryBudget | None = None,
        on_hold: Callable[[Session, int], None] = lambda session, number: None,
        rule_log: RuleLog | None = None,
    ) -> None:
        self.number = number
        self.name = name
        self.legs: dict[Peer, Leg] = {CLIENT: _leg(CLIENT, transport, limits, metrics)}
        self._dial = dial
        self._limits = limits
        self._metrics = metrics
        self._report = SessionReport(number, name, metrics, tap, rule_log)
        self._scope = trio.CancelScope()
        self._nursery: trio.Nursery | None = None
        self.phase = SessionState.GREETING
        self._drain: Drain | None = None
        self._closing = Closing(self.legs, self._report)
        self._tunnel: Tunnel | None = None
        self._culprit: Frame | None = None
        self._rules = rules
        self._mirrors = mirrors
        self._share = MemoryShare(memory or MemoryBudget(share_limit=SESSION_MEMORY))
        self._on_hold = on_hold
        self._known = client or Client(session=number)
        self._interceptor: Interceptor | None = None
        self._handshake: PacedHandshake | None = None
        self._timer: trio.CancelScope | None = None
        self._room: dict[Peer, trio.Event] = {}
        self._going = 2
        self._is_beating = False

    @property
    def client(self) -> Leg:
        return self.legs[CLIENT]

    @property
    def interceptor(self) -> Interceptor | None:
        """What there is between the legs, if there are rules."""
        return self._interceptor

    @property
    def known(self) -> Client:
        """What is known of the client so far."""
        if self._interceptor is not None:
            return self._interceptor.client
        connection = self.client.connection
        known = updated_client(self._known, connection.client) if connection.client is not None else self._known
        return msgspec.structs.replace(known, vhost=connection.virtual_host)

    @property
    def shown(self) -> Client:
        """The same, as redactions leave it: for people to see."""
        return self.known if self._interceptor is None else self._interceptor.evaluator.shown_client

    @property
    def state(self) -> ConnectionState:
        """Where the client's leg is in its life."""
        return self.client.connection.state

    # --- from beginning to end

    async def run(self) -> None:
        """Serve the client until it is gone, or until it had to go."""
        self._scope.deadline = trio.current_time() + self._limits.handshake_timeout
        try:
            with self.contained(), self._scope:
                await self._serve()
            self._move(SessionEvent.ENDED)
            if self._scope.cancelled_caught:
                self._report.finish(
                    SessionEnd("proxy", 0, f"no connection.open-ok within {self._limits.handshake_timeout:g} s")
                )
            with self.contained():
                await self._closing.reset_lost()
                await self._settle_what_waits()
                await self._closing.send_closes(self.known, self._limits.close_timeout)
                await self._closing.linger()
        finally:
            with trio.CancelScope(shield=True):
                for leg in self.legs.values():
                    with self.contained():
                        await leg.transport.aclose()
            with self.contained():
                self._report.close()
            if self._interceptor is not None:
                with self.contained():
                    self._interceptor.end()
                self._interceptor = None
            self._share.clear()
            self.phase = SessionState.OVER

    def _move(self, event: SessionEvent) -> None:
        """Enter the next state of the session; `KeyError` when the table knows no way."""
        self.phase = SESSION_TRANSITIONS[self.phase][event]

    def contained(self) -> AbstractContextManager[None]:
        """What goes wrong inside ends this session with 541, and is no other client's trouble."""
        return self._report.contained("session failed", self._fail)

    def _fail(self, failure: Exception) -> None:
        self._closing.fail()
        self._scope.cancel()

    async def _serve(self) -> None:
        opening = await self._open()
        if opening is None:
            return
        self._move(SessionEvent.HEADER)
        try:
            transport = await self._dial()
        except Unreachable as error:
            self._metrics.upstream_failures.labels(error.kind).inc()
            self._report.finish(SessionEnd("proxy", 0, f"upstream {error}"))
            return
        self.legs[SERVER] = upstream = _leg(SERVER, transport, self._limits, self._metrics)
        for leg in self.legs.values():
            leg.connection.receive_header(CLIENT, HEADER)
            if self._report.tap is None:
                leg.reader.want(STATEFUL[leg.peer], content=False)
        if opening.is_opaque:
            await self._serve_unread(upstream, opening)
            return
        try:
            async with trio.open_nursery() as self._nursery:
                self._move(SessionEvent.CONNECTED)
                if self._rules is not None and self._rules.rules:
                    self._intercept(self._rules)
                with suppress(TransportBroken):  # its own direction will say what happened
                    await upstream.transport.send(opening.header)
                self._handshake = PacedHandshake(self.client, self._limits.initial_frame_max, opening.rest)
                self._nursery.start_soon(self._carry, upstream, self.client)
                await self._carry(self.client, upstream)
        finally:
            self._nursery = None

    async def _serve_unread(self, upstream: Leg, opening: Opening) -> None:
        """Relay a protocol that is not decoded."""
        self._scope.deadline = math.inf
        self._tunnel = Tunnel(self.client.transport, upstream.transport, self._limits.close_timeout)
        self._report.log("info", f"{opening.protocol} passes without being read")
        try:
            async with trio.open_nursery() as self._nursery:
                self._move(SessionEvent.UNREAD)
                await self._tunnel.run(self._nursery, opening.data)
        finally:
            self._nursery = None
        if self._tunnel.ended_by is not None:
            by, reason = self._tunnel.ended_by
            self._report.finish(SessionEnd(by, 0, f"{reason}, after {opening.protocol}", is_abnormal=False))

    async def _open(self) -> Opening | None:
        """Receive the protocol header; None when the client is not served."""
        transport = self.client.transport
        opening = await receive_opening(transport, self._limits.tls_handshake_timeout)
        if isinstance(opening, SessionEnd):
            self._report.finish(opening)
            return None
        self._report.note_protocol_header(opening.header)
        self._known = with_tls(self._known, transport)
        is_seen = self._report.tap is not None or (self._rules is not None and bool(self._rules.rules))
        refusal = opening.refusal(is_seen=is_seen)
        if refusal is None:
            return opening
        self._metrics.refused.labels("protocol").inc()
        self._report.finish(refusal)
        await self.client.turn_away(self._limits.close_timeout)
        return None

    async def _carry(self, source: Leg, target: Leg) -> None:
        """One direction, from its first frame to its end, and what that end means for the session."""
        assert self._nursery is not None
        scope = self._nursery.cancel_scope
        try:
            reason = "closed without connection.close"
            try:
                ending = await self._relay(source, target)
                if ending is DirectionEnding.DEAF:
                    await self._outlast(target, source)
            except ConnectionRefusal as refusal:
                self._closing.refuse_by_rule(refusal)
                scope.cancel()
                return
            except ProtocolError as error:
                self._closing.refuse(source.peer, error, self._culprit)
                scope.cancel()
                return
            except InterceptorFault as fault:
                self._closing.refuse(fault.sender, fault.error)
                scope.cancel()
                return
            except TransportBroken as error:
                ending, reason = DirectionEnding.EOF, str(error)
            if self._handshake is not None and source.peer is SERVER:
                self._handshake.end()
            if self.phase is SessionState.LEAVING:
                if source.peer is CLIENT:
                    if self._interceptor is not None:  # what it had said before is still the broker's to hear
                        await self._let_all_go_on(self._interceptor)
                    with suppress(TransportBroken):
                        await self.client.transport.send_eof()
                    scope.cancel()
                return  # whatever becomes of the upstream, the client has its time to answer
            if source.peer is SERVER and self.client.takes_close and self._report.end is None:
                self._closing.lose_upstream(reason)
                scope.cancel()
                return
            self._report.finish(SessionEnd(str(source.peer), 0, f"{source.name} {reason}"))
            self._end_soon()
            with suppress(TransportBroken):
                if ending is DirectionEnding.EOF:
                    if self._interceptor is not None:
                        await self._let_all_go_on(self._interceptor)
                    await target.transport.send(source.reader.held)
                await target.transport.send_eof()
        finally:
            self._going -= 1
            if not self._going:  # what runs besides has nothing more to do
                scope.cancel()

    async def _outlast(self, target: Leg, source: Leg) -> None:
        """Wait for what `target`, which takes no more, may still say, or for the end of `source`.

        `TransportBroken` when the source is gone.
        """
        with trio.move_on_after(self._limits.close_timeout) as patience:
            await source.linger()
        if patience.cancelled_caught:
            if target.peer is SERVER:
                self._closing.lose_upstream("takes no more")
            self._report.finish(SessionEnd(str(target.peer), 0, f"{target.name} takes no more"))
            self._end_soon(0)

    # --- the data path

    async def _relay(self, source: Leg, target: Leg) -> DirectionEnding:
        """Pass frames on until there are no more. `TransportBroken` when the source is gone, `ProtocolError`
        when it sent what it may not: what it sent before that has then been passed on.
        """
        reader = source.reader
        observe = self._metrics.latency.observe
        handshake = self._handshake if source.peer is CLIENT else None
        busy = 0.0
        held = 0
        data = await (handshake or source.transport).receive()
        while data:
            began = time.perf_counter()
            if reader.is_paused:
                frames = reader.resume()
            else:
                received = began
                frames = reader.feed(data)
            octets, error = self._pass_on(source, target, frames)
            if reader.is_paused and error is None:
                frames, octets, error = self._pass_on_more(source, target, frames, octets, began + QUANTUM)
            try:
                await target.transport.send(octets)
            except TransportBroken:
                return DirectionEnding.DEAF
            if self._interceptor is not None:
                await self._answer(self._interceptor, source)
            if error is not None:
                self._culprit = culprit_of(frames, error)
                raise error
            if self._drain is not None and self._drain.is_leaving and await self._drain.is_answered():
                return DirectionEnding.OVER
            if reader.held_size != held:
                self._count_held(reader, held)
                held = reader.held_size
            now = time.perf_counter()
            observe(now - received)
            busy += now - began
            if busy > QUANTUM:
                busy = 0.0
                await trio.lowlevel.checkpoint()
            if reader.is_paused:
                continue
            if handshake is None:
                data = await source.transport.receive()
                continue
            data = await handshake.receive()
            if handshake.is_over:
                handshake = self._handshake = None
        return DirectionEnding.EOF

    def _pass_on(
        self, source: Leg, target: Leg, frames: list[Frame]
    ) -> tuple[bytes | memoryview, ProtocolError | InterceptorFault | None]:
        """What is to be sent on of what was read with these frames, and what is wrong after it."""
        if self._interceptor is not None:
            return self._cross(self._interceptor, source, target, frames)
        if frames or self._drain is not None:
            return self._follow(source, target, frames)
        return source.reader.taken, source.reader.error

    def _pass_on_more(
        self, source: Leg, target: Leg, frames: list[Frame], octets: bytes | memoryview, until: float
    ) -> tuple[list[Frame], bytes | memoryview, ProtocolError | InterceptorFault | None]:
        """Go on with a reader that is paused, until a time, so that what it read is sent on in one piece: the frames
        looked at last, all that is to be sent on, and what is wrong after it.

        Whatever has to be done about the peers themselves first ends it.
        """
        reader = source.reader
        error: ProtocolError | InterceptorFault | None = None
        gathered = [octets]
        while reader.is_paused and error is None and time.perf_counter() < until:
            if self.phase is SessionState.LEAVING:
                break
            if self._interceptor is not None and self._interceptor.is_full(source.peer):
                break
            frames = reader.resume()
            octets, error = self._pass_on(source, target, frames)
            gathered.append(octets)
        return frames, b"".join(gathered), error

    def _follow(self, source: Leg, target: Leg, frames: list[Frame]) -> tuple[bytes | memoryview, ProtocolError | None]:
        """Let both legs see the frames: the bytes to pass on, and what is wrong after them."""
        reader, sender = source.reader, source.peer
        error = reader.error
        passed: list[Frame] = []
        try:
            for frame in frames:
                counts = self._counts(sender, frame)
                if counts:
                    _show(source.connection, sender, frame)
                if self._passes(sender, frame):
                    if counts:
                        _show(target.connection, sender, frame)
                    passed.append(frame)
                if counts and frame.kind == METHOD:
                    self._on_method(sender, frame.method)
        except ProtocolError as found:
            error = found
        self._report.note_channels(len(self.client.connection.channels))
        self._report.note_frames(sender, passed)
        if self._drain is not None:
            self._close_if_drained()
            return b"".join([frame.raw for frame in passed]), error
        if error is not reader.error:
            return memoryview(reader.taken)[: frame.offset - (reader.offset - len(reader.taken))], error
        return reader.taken, error

    def _count_held(self, reader: FrameReader, before: int) -> None:
        """Count the bytes of a frame that is not whole yet, of which `before` are counted already.

        `ResourceError` when there is no room for them, unless the frame is of a size that every peer must take.
        """
        self._share.add(reader.held_size - before)
        if reader.held_size > FRAME_MIN_SIZE and self._share.is_over:
            raise ResourceError("there is no memory now for the rest of a frame")

    # --- rules

    def apply_rules(self, rules: RuleSet) -> None:
        """Go by other rules from here on."""
        kept = rules.continued_from(self._rules) if self._rules is not None else set()
        self._rules = rules
        for leg in self.legs.values():
            if isinstance(leg.transport, FaultyTransport):
                leg.transport.lift(kept)
        if self._tunnel is not None and rules.rules:
            self.abort("rules cannot read 0-8")
        elif self._interceptor is not None:
            self._interceptor.evaluator = self._interceptor.evaluator.moved(rules)
            self._interceptor.ask_for_frames()
            if self._nursery is not None:
                self._start_rules(self._interceptor, is_open=self.state is ConnectionState.OPEN)
        elif self.phase is SessionState.RELAYING and rules.rules:
            self._intercept(rules)

    def count_unseen(self) -> None:
        """Let rules have counted what passed without being looked at."""
        if self._interceptor is not None:
            self._interceptor.count_unseen()

    def _intercept(self, rules: RuleSet) -> None:
        connection = self.client.connection
        known = updated_client(self._known, connection.client) if connection.client is not None else self._known
        known = msgspec.structs.replace(known, vhost=connection.virtual_host)
        self._interceptor = Interceptor(
            {peer: leg.connection for peer, leg in self.legs.items()},
            rules.evaluator(known),
            known,
            random=random.random,
            time=time.time,
            met=self._on_method,
            is_tapped=self._report.tap is not None,
            share=self._share,
            body_limit=self._limits.rule_body,
        )
        self._start_rules(self._interceptor, is_open=connection.state is ConnectionState.OPEN)

    def _start_rules(self, interceptor: Interceptor, *, is_open: bool) -> None:
        """Ask the rules that are about connections as such what is to be done to the bytes of this one."""
        now = trio.current_time()
        self._impair(interceptor.evaluator.start(now=now, time=time.time(), random=random.random, is_open=is_open))

    def _impair(self, impairments: Iterable[Impairment]) -> None:
        if self._nursery is None:
            return  # nothing is left that they could be about
        for impairment in impairments:
            leg = self.legs[impairment.to]
            if not isinstance(leg.transport, FaultyTransport):
                leg.transport = FaultyTransport(leg.transport, random.random)
                self._nursery.start_soon(leg.transport.run)
            leg.transport.impair(impairment)

    def _cross(
        self, interceptor: Interceptor, source: Leg, target: Leg, frames: list[Frame]
    ) -> tuple[bytes | memoryview, ProtocolError | InterceptorFault | None]:
        """Apply the rules to the frames: what is to be sent on, and what is wrong after it."""
        reader, sender = source.reader, source.peer
        error: ProtocolError | InterceptorFault | None = reader.error
        try:
            interceptor.take(sender, frames, trio.current_time())
        except ProtocolError as found:
            error = found
        self._apply_effects(interceptor)
        error = interceptor.refusal or error
        if interceptor.fault is not None and error is None:
            error = interceptor.fault
        if self._drain is not None:
            self._close_if_drained()
        return interceptor.take_output(target.peer), error

    def _apply_effects(self, interceptor: Interceptor) -> None:
        """Do what follows from what has crossed, but for sending it."""
        self._report.note_channels(len(self.client.connection.channels))
        for peer in Peer:
            for note, frames in interceptor.take_passed(peer):
                self._report.note_frames(peer, frames, note)
        effects = interceptor.take_effects()
        self._impair(effects.impairments)
        for level, text in effects.logged:
            self._report.log(level, text)
        if effects.failed and self._rules is not None:
            self._report.note_failed_rules(effects.failed, self._rules.counts())
        for sender, command, verdict in effects.refused:
            self._report.note_refusal(interceptor.evaluator, sender, command, verdict)
        for mirrored in effects.mirrored:
            self._mirror(mirrored)
        for number in effects.held:
            with self._report.contained("hold not announced"):
                self._on_hold(self, number)
        for peer in [peer for peer in self._room if not interceptor.is_full(peer)]:
            self._room.pop(peer).set()
        if self._timer is not None:
            self._timer.deadline = interceptor.next_deadline
        elif interceptor.next_deadline < math.inf and self._nursery is not None:
            self._timer = trio.CancelScope()  # until the task runs, so that there is but one
            self._nursery.start_soon(self._keep_time, interceptor)

    def _mirror(self, copy: MirroredCopy) -> None:
        """Hand a copy to its mirror, which sends it in its own task."""
        connection = self.legs[SERVER].connection
        if self._mirrors is None or connection.client is None:
            self._drop_copy()
            return
        with self._report.contained("copy not made", self._drop_copy):
            self._mirrors.put(copy, MirrorLogin(connection.client, connection.virtual_host))

    def _drop_copy(self, _: Exception | None = None) -> None:
        self._metrics.copies_dropped.labels(str(DropReason.UPSTREAM)).inc()

    async def _answer(self, interceptor: Interceptor, source: Leg) -> None:
        """Send queued replies to the source; and wait while too much of what it said waits."""
        octets = interceptor.take_output(source.peer)
        if octets:
            with suppress(TransportBroken):  # its own direction will say what happened
                await source.transport.send(octets)
        while interceptor.is_full(source.peer):
            room = self._room[source.peer] = trio.Event()
            await room.wait()

    async def _keep_time(self, interceptor: Interceptor) -> None:
        """Let go on what has waited long enough, until nothing waits."""
        while interceptor.next_deadline < math.inf:
            with trio.CancelScope(deadline=interceptor.next_deadline) as self._timer:
                await trio.sleep_forever()
            interceptor.tick(trio.current_time())
            self._apply_effects(interceptor)
            await self._let_go_on(interceptor)
        self._timer = None

    def release(self, number: int, verdict: Verdict | None) -> None:
        """Let go on what is held, with another verdict if one is given. `KeyError` when it is not held."""
        interceptor = self._interceptor
        if interceptor is None or self._nursery is None or number not in interceptor.waiting:
            raise KeyError(number)
        with self.contained():
            interceptor.release(number, verdict, trio.current_time())
            self._apply_effects(interceptor)
            self._nursery.start_soon(self._let_go_on, interceptor)

    async def _let_all_go_on(self, interceptor: Interceptor) -> None:
        """Send all that waits, since there is nothing more to wait for."""
        interceptor.release_all(trio.current_time())
        await self._go_on_releasing(interceptor)

    async def _go_on_releasing(self, interceptor: Interceptor) -> None:
        """Send what is released, and release the rest of it, with a turn for all others in between."""
        while True:
            self._apply_effects(interceptor)
            if self.phase is SessionState.LEAVING:
                interceptor.take_output(CLIENT)  # it has taken its leave
            await self._let_go_on(interceptor)
            if not interceptor.is_releasing:
                break
            await trio.lowlevel.checkpoint()
            interceptor.go_on_releasing(trio.current_time())
        if self._drain is not None:
            self._close_if_drained()

    async def _settle_what_waits(self) -> None:
        """Send what a client has said that is gone by now, and that is not to be refused: as if its time had come."""
        interceptor, upstream = self._interceptor, self.legs.get(SERVER)
        if interceptor is None or upstream is None or not interceptor.waiting or interceptor.is_over:
            return
        if not self._closing.upstream_takes_more:
            return
        interceptor.release_all(trio.current_time())
        self._apply_effects(interceptor)
        with trio.move_on_after(self._limits.close_timeout), suppress(TransportBroken):
            await upstream.transport.send(interceptor.take_output(SERVER))

    async def _let_go_on(self, interceptor: Interceptor) -> None:
        """Send what has waited, and end the session if that is what it comes to."""
        await self._send_what_crossed(interceptor)
        if interceptor.refusal is not None:
            self._closing.refuse_by_rule(interceptor.refusal)
            self._scope.cancel()
        elif interceptor.fault is not None:
            self._closing.refuse(interceptor.fault.sender, interceptor.fault.error)
            self._scope.cancel()

    async def _send_what_crossed(self, interceptor: Interceptor) -> None:
        for peer, leg in self.legs.items():
            octets = interceptor.take_output(peer)
            if octets:
                with suppress(TransportBroken):  # its own direction will say what happened
                    await leg.transport.send(octets)

    def _on_method(self, sender: Peer, method: Method) -> None:
        """Do what follows from a method for the session itself."""
        if self._handshake is not None and sender is SERVER:
            self._handshake.note_answer()
        if isinstance(method, ConnectionStartOk):
            self._report.introduce(self.shown)
        elif isinstance(method, ConnectionTuneOk):
            for leg in self.legs.values():  # none takes a frame above our own limit, whatever they agreed on
                agreed = leg.connection.frame_max or self._limits.frame_max
                leg.reader.set_frame_max(min(agreed, self._limits.frame_max))
        elif isinstance(method, ConnectionClose) and self._closing.is_for_silence(sender, method):
            self._scope.cancel()
        elif isinstance(method, ConnectionOpenOk):
            self._scope.deadline = math.inf
            self._report.note_open(self.client.connection)
            if self._interceptor is not None:
                self._start_rules(self._interceptor, is_open=True)
        else:
            self._report.note_method(sender, method)

    def _counts(self, sender: Peer, frame: Frame) -> bool:
        """Do the legs see the frame? What a tap or a drain has handed over besides must make no difference.

        Once the client has been asked to go, the legs no longer agree on channels: then what is
        said on them is the broker's to evaluator.
        """
        if self.phase is SessionState.LEAVING:
            return frame.channel == 0
        return not frame.is_in_order or (frame.kind == METHOD and STATEFUL[sender][frame.index] != 0)

    def _passes(self, sender: Peer, frame: Frame) -> bool:
        """Is the frame passed on?"""
        return self._drain is None or self._drain.passes(sender, frame)

    # --- draining: stop at the end of a command, and lose nothing that was said

    def drain(self) -> None:
        """End the session with 320 as soon as the contents under way are complete."""
        nursery = self._nursery
        start = drain_start(self.phase, self.state)
        if start is DrainStart.NOT_AGAIN:
            return
        if start is DrainStart.ABORT or nursery is None:
            self.abort("drained")
        elif start is DrainStart.AWAIT_CLOSE:
            self._end_soon()
        else:
            readers = {peer: leg.reader for peer, leg in self.legs.items()}
            for reader in readers.values():
                reader.want(EVERY_METHOD, content=True)
            self._move(SessionEvent.DRAIN)
            self._drain = Drain(self.client, readers)
            if self._interceptor is not None:
                self._interceptor.gate = self._drain.passes
                self._interceptor.ask_for_frames()
                self._interceptor.release_all(trio.current_time())
                self._apply_effects(self._interceptor)
                nursery.start_soon(self._go_on_releasing, self._interceptor)
            self._close_if_drained()

    def abort(self, reason: str) -> None:
        """End the session where it stands."""
        self._closing.abort(reason)
        self._scope.cancel()

    def _close_if_drained(self) -> None:
        """Send the client connection.close, once the contents in progress at the start of the drain are complete."""
        if self._drain is None or self._nursery is None or self.phase is not SessionState.DRAINING:
            return
        if self._interceptor is not None and (self._interceptor.is_over or self._interceptor.is_releasing):
            return  # it ends for that, or is asked again
        close = self._drain.close(SHUTDOWN)
        if close is None:
            return
        self._move(SessionEvent.DRAINED)
        if self._interceptor is not None:
            self._interceptor.is_draining = True
        self._closing.drained()
        self._end_soon()
        before = b"" if self._interceptor is None else bytes(self._interceptor.take_output(CLIENT))
        self._nursery.start_soon(self._drain.send_close, before + close)

    # --- the end

    @property
    def owes_heartbeats(self) -> bool:
        """Does the broker expect heartbeats that the client does not send, since a rule has clamped what it said?"""
        upstream = self.legs.get(SERVER)
        if upstream is None or not upstream.connection.heartbeat or not upstream.takes_close:
            return False
        return not 0 < self.client.connection.heartbeat <= upstream.connection.heartbeat

    def send_heartbeat(self) -> None:
        """Send the broker a heartbeat, unless the last one is still on its way."""
        if self._nursery is not None and not self._is_beating:
            self._is_beating = True
            self._nursery.start_soon(self._send_heartbeat)

    async def _send_heartbeat(self) -> None:
        with suppress(TransportBroken):  # its own direction will say what happened
            await self.legs[SERVER].transport.send(HEARTBEAT_FRAME)
        self._is_beating = False

    def lose(self, peer: Peer, reason: str) -> None:
        """End the session because `peer` is silent or does not read. It is reset."""
        if self._nursery is None:
            return  # it is ending already
        self._closing.reset(peer, reason)
        self._scope.cancel()

    def _end_soon(self, timeout: float | None = None) -> None:
        """Bound what is left of the two directions, by `limits.close_timeout` where nothing is said."""
        assert self._nursery is not None
        scope = self._nursery.cancel_scope
        seconds = self._limits.close_timeout if timeout is None else timeout
        scope.deadline = min(scope.deadline, trio.current_time() + seconds)


def _show(connection: Connection, sender: Peer, frame: Frame) -> None:
    """Let a leg see a frame; what is wrong on its channel only is for the broker to answer."""
    try:
        connection.receive(sender, frame)
    except ProtocolError as error:
        if error.scope is Scope.CONNECTION:
            raise


def _leg(peer: Peer, transport: Transport, limits: Limits, metrics: Metrics) -> Leg:
    connection = Connection(
        initial_frame_max=limits.initial_frame_max, tracks_deliveries=False, tallies=metrics.tallies
    )
    leg = Leg(peer, transport, connection)
    leg.reader.quantum = QUANTUM_FRAMES
    return leg
