"""One client's connection and the one to the broker that serves it.

This is where the two legs meet, and the only place that knows both. A `Relay` for each direction passes frames on
through a `Passage`: as they came, or as rules decide. However a session ends, each peer is sent a close that it
understands.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager, suppress

import trio

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import HEARTBEAT_FRAME
from amqproxy.amqp091.methods import ConnectionClose, ConnectionOpenOk, ConnectionStartOk, ConnectionTuneOk, Method
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.transitions import CLIENT, SERVER, ConnectionState, Peer
from amqproxy.config import Limits
from amqproxy.proxy.closing import SHUTDOWN, Closing
from amqproxy.proxy.drain import Drain, DrainStart, drain_start
from amqproxy.proxy.effects import ConnectionRefusal, InterceptorFault
from amqproxy.proxy.faulty_transport import FaultyTransport
from amqproxy.proxy.handshake import PacedHandshake
from amqproxy.proxy.interceptor import Interceptor
from amqproxy.proxy.leg import Leg, new_leg
from amqproxy.proxy.memory_budget import SESSION_MEMORY, MemoryBudget, MemoryShare
from amqproxy.proxy.mirrors import Mirrors
from amqproxy.proxy.opening import Opening, receive_opening, with_tls
from amqproxy.proxy.pass_through import PassThrough
from amqproxy.proxy.passage import Passage
from amqproxy.proxy.relay import DirectionEnding, Relay
from amqproxy.proxy.release_timer import ReleaseTimer
from amqproxy.proxy.rule_log import RuleLog
from amqproxy.proxy.session_effects import log_effects, send_copies
from amqproxy.proxy.session_report import SessionEnd, SessionReport
from amqproxy.proxy.session_state import SESSION_TRANSITIONS, SessionEvent, SessionState
from amqproxy.proxy.tunnel import Tunnel
from amqproxy.proxy.upstream import Unreachable
from amqproxy.rules.context import Client
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.verdict import Impairment, Verdict
from amqproxy.sockets.transport import Transport, TransportBroken
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.tap import Tap


class Session:
    """One client's connection, from its first byte to the last one of the broker's.

    `number` counts the sessions of this run; `name` is both ends' addresses as the client sees
    them, its own first. `dial` connects to the broker. `client` is what is known of the client so far,
    `rules` what is applied to it; without any, frames pass as they came. `on_hold` is called with the number of each
    command that waits for an operator from then on. `phase` is where the session is in its life.
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
        self.legs: dict[Peer, Leg] = {CLIENT: new_leg(CLIENT, transport, limits, metrics)}
        self.phase = SessionState.GREETING
        self._dial = dial
        self._limits = limits
        self._metrics = metrics
        self._rules = rules
        self._mirrors = mirrors
        self._on_hold = on_hold
        self._report = SessionReport(number, name, metrics, tap, rule_log)
        self._closing = Closing(self.legs, self._report)
        self._share = MemoryShare(memory or MemoryBudget(share_limit=SESSION_MEMORY))
        self._timer = ReleaseTimer()
        self._scope = trio.CancelScope()
        self._nursery: trio.Nursery | None = None
        self._met: list[tuple[Peer, Method]] = []
        self._passage: Passage = PassThrough(self.legs, client or Client(session=number), self._met)
        self._relays: tuple[Relay, ...] = ()
        self._going = 2
        self._drain: Drain | None = None
        self._tunnel: Tunnel | None = None
        self._is_beating = False

    @property
    def client(self) -> Leg:
        return self.legs[CLIENT]

    @property
    def interceptor(self) -> Interceptor | None:
        """What there is between the legs, if there are rules."""
        return self._passage if isinstance(self._passage, Interceptor) else None

    @property
    def known(self) -> Client:
        """What is known of the client so far."""
        return self._passage.client

    @property
    def shown(self) -> Client:
        """The same as logs and operators may see it, as redactions leave it."""
        return self._passage.shown_client

    @property
    def state(self) -> ConnectionState:
        """Where the client's leg is in its life."""
        return self.client.connection.state

    # --- from beginning to end

    async def run(self) -> None:
        """Serve the client until it is gone, or until the session is ended."""
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
            with self.contained():
                self._passage.end()
                self._passage = PassThrough(self.legs, self.known, self._met)  # nothing is kept of rules
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
        self.legs[SERVER] = upstream = new_leg(SERVER, transport, self._limits, self._metrics)
        if opening.is_opaque:
            await self._serve_unread(upstream, opening)
            return
        try:
            async with trio.open_nursery() as self._nursery:
                self._move(SessionEvent.CONNECTED)
                await self._relay(self._nursery, upstream, opening)
        finally:
            self._nursery = None
            self._relays = ()

    async def _relay(self, nursery: trio.Nursery, upstream: Leg, opening: Opening) -> None:
        """Relay both directions until they have ended."""
        for leg in self.legs.values():
            leg.connection.receive_header(CLIENT, HEADER)
        self._passage.ask_for_frames()
        if self._rules is not None and self._rules.rules:
            self._intercept(self._rules)
        with suppress(TransportBroken):  # its own direction reports what happened
            await upstream.transport.send(opening.header)
        handshake = PacedHandshake(self.client, self._limits.initial_frame_max, opening.rest)
        inbound = self._new_relay(self.client, upstream, handshake)
        outbound = self._new_relay(upstream, self.client)
        self._relays = (inbound, outbound)
        nursery.start_soon(self._carry, outbound, nursery.cancel_scope)
        await self._carry(inbound, nursery.cancel_scope)

    def _new_relay(self, source: Leg, target: Leg, handshake: PacedHandshake | None = None) -> Relay:
        return Relay(
            source,
            target,
            self._passage,
            self._share,
            follow_up=self._follow_up,
            observe=self._metrics.latency.observe,
            handshake=handshake,
        )

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
        is_tapped = self._report.tap is not None
        self._passage = PassThrough(self.legs, with_tls(self.known, transport), self._met, is_tapped=is_tapped)
        refusal = opening.refusal(is_seen=is_tapped or (self._rules is not None and bool(self._rules.rules)))
        if refusal is None:
            return opening
        self._metrics.refused.labels("protocol").inc()
        self._report.finish(refusal)
        await self.client.turn_away(self._limits.close_timeout)
        return None

    async def _carry(self, relay: Relay, scope: trio.CancelScope) -> None:
        """One direction, from its first frame to its end, and what that end means for the session."""
        source, target = relay.source, relay.target
        try:
            reason = "closed without connection.close"
            try:
                ending = await relay.run()
                if ending is DirectionEnding.TARGET_GONE:
                    await self._outlast(target, source, scope)
            except ConnectionRefusal as refusal:
                self._closing.refuse_by_rule(refusal)
                scope.cancel()
                return
            except ProtocolError as error:
                self._closing.refuse(source.peer, error, relay.culprit)
                scope.cancel()
                return
            except InterceptorFault as fault:
                self._closing.refuse(fault.sender, fault.error)
                scope.cancel()
                return
            except TransportBroken as error:
                ending, reason = DirectionEnding.EOF, str(error)
            if source.peer is SERVER:
                self._end_handshake()
            if self.phase is SessionState.LEAVING:
                if source.peer is CLIENT:
                    await self._release_all()  # what it had sent before still goes to the broker
                    with suppress(TransportBroken):
                        await self.client.transport.send_eof()
                    scope.cancel()
                return  # whatever becomes of the upstream, the client has its time to answer
            if source.peer is SERVER and self.client.takes_close and self._report.end is None:
                self._closing.lose_upstream(reason)
                scope.cancel()
                return
            self._report.finish(SessionEnd(str(source.peer), 0, f"{source.name} {reason}"))
            self._end_soon(scope)
            with suppress(TransportBroken):
                if ending is DirectionEnding.EOF:
                    await self._release_all()
                    await target.transport.send(source.reader.held)
                await target.transport.send_eof()
        finally:
            self._going -= 1
            if not self._going:  # what runs besides has nothing more to do
                scope.cancel()

    async def _outlast(self, target: Leg, source: Leg, scope: trio.CancelScope) -> None:
        """Wait for what `target`, which takes no more, may still send, or for the end of `source`.

        `TransportBroken` when the source is gone.
        """
        with trio.move_on_after(self._limits.close_timeout) as patience:
            await source.linger()
        if patience.cancelled_caught:
            if target.peer is SERVER:
                self._closing.lose_upstream("takes no more")
            self._report.finish(SessionEnd(str(target.peer), 0, f"{target.name} takes no more"))
            self._end_soon(scope, 0)

    def _end_soon(self, scope: trio.CancelScope, timeout: float | None = None) -> None:
        """Bound what is left of the two directions, by `limits.close_timeout` where no timeout is given."""
        seconds = self._limits.close_timeout if timeout is None else timeout
        scope.deadline = min(scope.deadline, trio.current_time() + seconds)

    # --- what follows from what has passed

    def _follow_up(self) -> None:
        """Do what follows from the frames that a passage has just taken, but for sending."""
        self._apply_effects()
        if self._drain is not None:
            self._close_if_drained()

    def _apply_effects(self) -> None:
        """Do what follows from what has passed, but for sending it."""
        passage = self._passage
        for sender, method in self._met:
            self._on_method(sender, method)
        self._met.clear()
        self._report.note_channels(len(self.client.connection.channels))
        for peer in (CLIENT, SERVER):
            for note, frames in passage.take_passed(peer):
                self._report.note_frames(peer, frames, note)
        effects = passage.take_effects()
        self._impair(effects.impairments)
        log_effects(effects, passage, self._report, self._rules)
        if effects.mirrored:
            send_copies(effects.mirrored, self._mirrors, self.legs[SERVER].connection, self._report)
        for number in effects.held:
            with self._report.contained("hold not announced"):
                self._on_hold(self, number)
        for relay in self._relays:
            relay.make_room()
        if self._nursery is not None and self._timer.move(passage.next_deadline):
            self._nursery.start_soon(self._keep_time)

    def _on_method(self, sender: Peer, method: Method) -> None:
        """Do what follows from a method for the session itself."""
        if sender is SERVER:
            for relay in self._relays:
                if relay.handshake is not None:
                    relay.handshake.note_answer()
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
            self._impair(self._passage.start(trio.current_time(), is_open=True))
        else:
            self._report.note_method(sender, method)

    def _end_handshake(self) -> None:
        """The server moves the handshake on no more."""
        for relay in self._relays:
            if relay.handshake is not None:
                relay.handshake.end()

    def _impair(self, impairments: Iterable[Impairment]) -> None:
        if self._nursery is None:
            return  # nothing is left that they could be about
        for impairment in impairments:
            leg = self.legs[impairment.to]
            if not isinstance(leg.transport, FaultyTransport):
                leg.transport = FaultyTransport(leg.transport, random.random)
                self._nursery.start_soon(leg.transport.run)
            leg.transport.impair(impairment)

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
        elif isinstance(self._passage, Interceptor):
            self._passage.evaluator = self._passage.evaluator.moved(rules)
            self._passage.ask_for_frames()
            self._start_rules()
        elif self.phase is SessionState.RELAYING and rules.rules:
            self._intercept(rules)

    def _intercept(self, rules: RuleSet) -> None:
        """Apply rules to what passes from here on."""
        client, met = self.known, self._met
        self._passage = Interceptor(
            {peer: leg.connection for peer, leg in self.legs.items()},
            rules.evaluator(client),
            client,
            random=random.random,
            time=time.time,
            met=lambda sender, method: met.append((sender, method)),
            is_tapped=self._report.tap is not None,
            share=self._share,
            body_limit=self._limits.rule_body,
        )
        for relay in self._relays:
            relay.passage = self._passage
        self._start_rules()

    def _start_rules(self) -> None:
        """Ask the rules that are about connections as such what is to be done to the bytes of this one."""
        if self._nursery is not None:
            self._impair(self._passage.start(trio.current_time(), is_open=self.state is ConnectionState.OPEN))

    def count_unseen(self) -> None:
        """Have the rules count what passed without being looked at."""
        self._passage.count_unseen()

    # --- commands that wait

    async def _keep_time(self) -> None:
        """Send on what has waited long enough, until nothing waits."""
        while await self._timer.wait(self._passage.next_deadline):
            self._passage.tick(trio.current_time())
            self._apply_effects()
            await self._send_output()

    def release(self, number: int, verdict: Verdict | None) -> None:
        """Send on a held command, with another verdict if one is given. `KeyError` when it is not held."""
        if self._nursery is None or number not in self._passage.waiting:
            raise KeyError(number)
        with self.contained():
            self._passage.release(number, verdict, trio.current_time())
            self._apply_effects()
            self._nursery.start_soon(self._send_output)

    async def _release_all(self) -> None:
        """Send all that waits, since there is nothing more to wait for."""
        self._passage.release_all(trio.current_time())
        await self._go_on_releasing()

    async def _go_on_releasing(self) -> None:
        """Send what is released, and release the rest of it, with a turn for all others in between."""
        while True:
            self._apply_effects()
            if self.phase is SessionState.LEAVING:
                self._passage.take_output(CLIENT)  # it was sent connection.close
            await self._send_output()
            if not self._passage.is_releasing:
                break
            await trio.lowlevel.checkpoint()
            self._passage.go_on_releasing(trio.current_time())
        if self._drain is not None:
            self._close_if_drained()

    async def _settle_what_waits(self) -> None:
        """Send what a client that is gone by now has sent, and that is not to be refused: as if its time had come."""
        passage = self._passage
        if not passage.waiting or passage.is_over or not self._closing.upstream_takes_more:
            return
        passage.release_all(trio.current_time())
        self._apply_effects()
        with trio.move_on_after(self._limits.close_timeout), suppress(TransportBroken):
            await self.legs[SERVER].transport.send(passage.take_output(SERVER))

    async def _send_output(self) -> None:
        """Send what has waited, and end the session if that is what it comes to."""
        for peer, leg in self.legs.items():
            output = self._passage.take_output(peer)
            if output:
                with suppress(TransportBroken):  # its own direction reports what happened
                    await leg.transport.send(output)
        if self._passage.refusal is not None:
            self._closing.refuse_by_rule(self._passage.refusal)
            self._scope.cancel()
        elif self._passage.fault is not None:
            self._closing.refuse(self._passage.fault.sender, self._passage.fault.error)
            self._scope.cancel()

    # --- the session is ended from outside

    def drain(self) -> None:
        """End the session with 320 as soon as the contents in progress are complete."""
        nursery = self._nursery
        start = drain_start(self.phase, self.state)
        if start is DrainStart.NOT_AGAIN:
            return
        if start is DrainStart.ABORT or nursery is None:
            self.abort("drained")
        elif start is DrainStart.AWAIT_CLOSE:
            self._end_soon(nursery.cancel_scope)
        else:
            self._move(SessionEvent.DRAIN)
            self._drain = Drain(self.client, {peer: leg.reader for peer, leg in self.legs.items()})
            for relay in self._relays:
                relay.drain = self._drain
            self._passage.gate = self._drain.passes
            self._passage.ask_for_frames()
            self._passage.release_all(trio.current_time())
            self._apply_effects()
            nursery.start_soon(self._go_on_releasing)
            self._close_if_drained()

    def _close_if_drained(self) -> None:
        """Send the client connection.close, once the contents in progress at the start of the drain are complete."""
        if self._drain is None or self._nursery is None or self.phase is not SessionState.DRAINING:
            return
        if self._passage.is_over or self._passage.is_releasing:
            return  # it ends for that, or is asked again
        close = self._drain.close(SHUTDOWN)
        if close is None:
            return
        self._move(SessionEvent.DRAINED)
        self._passage.is_draining = True
        self._closing.drained()
        self._end_soon(self._nursery.cancel_scope)
        self._nursery.start_soon(self._drain.send_close, bytes(self._passage.take_output(CLIENT)) + close)

    def abort(self, reason: str) -> None:
        """End the session where it stands."""
        self._closing.abort(reason)
        self._scope.cancel()

    def lose(self, peer: Peer, reason: str) -> None:
        """End the session because `peer` is silent or does not read. It is reset."""
        if self._nursery is None:
            return  # it is ending already
        self._closing.reset(peer, reason)
        self._scope.cancel()

    # --- heartbeats

    @property
    def owes_heartbeats(self) -> bool:
        """Does the broker expect heartbeats that the client does not send, since a rule has limited its interval?"""
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
        with suppress(TransportBroken):  # its own direction reports what happened
            await self.legs[SERVER].transport.send(HEARTBEAT_FRAME)
        self._is_beating = False
