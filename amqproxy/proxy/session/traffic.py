"""Frame traffic between the two legs of one session, with its taps, rules, operator actions and drain.

A `Traffic` carries out what passages, rules, taps and operators request of a session. It is independent of the
protocol: each dialect derives its own, which creates legs, passages and directions, and handles the methods that
matter to the session.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any

import trio

from amqproxy.amqp091.errors import ConnectionForced
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.process.exception_frames import release_frames
from amqproxy.proxy.faulty_transport import EndedByFault, FaultyTransport, cause_of_end
from amqproxy.proxy.interception.effects import ConnectionRefusal, InterceptorEffects, InterceptorFault
from amqproxy.proxy.interception.interceptor import Interceptor
from amqproxy.proxy.leg import Leg
from amqproxy.proxy.session.closing import SHUTDOWN
from amqproxy.proxy.session.farewell import Farewell
from amqproxy.proxy.session.login_transport import LoginTransport
from amqproxy.proxy.session.ownership import Handover, Ownership
from amqproxy.proxy.session.passage import Passage
from amqproxy.proxy.session.relay import Direction, DirectionEnding, Relay
from amqproxy.proxy.session.release_timer import ReleaseTimer
from amqproxy.proxy.session.session_effects import impair, log_effects, send_copies
from amqproxy.proxy.session.session_parts import SessionParts
from amqproxy.proxy.session.session_report import SessionEnd
from amqproxy.proxy.session.session_services import SessionServices
from amqproxy.proxy.session.session_state import SessionEvent, SessionState
from amqproxy.proxy.session.session_tasks import SessionTasks
from amqproxy.proxy.session.tapped_traffic import TappedTraffic
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.verdict import Verdict
from amqproxy.sockets.transport import SocketTransport, TransportBroken


class Traffic(TappedTraffic):
    """Executor of what the `passage` between `legs` requests, from the first frame until all delayed output is sent.

    `metered` counts the messages published by and delivered to the client, if they are counted. With `services.pumps`,
    a pump relays while the session is steady; call `recall` before changing anything about the traffic. Taps that must
    not miss frames slow the session by the tap brake. Buffered bytes are charged to the session's `share`.

    The session's `scope` is cancelled when an event here ends the session; `closing` and `report` hold the reason.
    """

    def __init__(self, parts: SessionParts[Any], services: SessionServices) -> None:
        self._life = parts.life
        self._closing = parts.closing
        super().__init__(parts.report, services)
        self._scope = parts.scope
        self._limits = services.limits
        self._share = parts.share
        self._announce: Callable[[int], None] = _ignore
        self._park: Callable[[Handover], bool] = _refuse
        self._tasks: SessionTasks | None = None
        self._directions_left = 2
        self._rules: RuleSet | None = None
        self._timer = ReleaseTimer()
        self._met: list[tuple[Any, ...]] = []
        self.ownership: Ownership | None = None
        """The current owner of both sockets, if a pump may take them over."""

    _leaves_for = SHUTDOWN
    """The reason of a drain."""

    # --- start and end

    def begin(
        self,
        tasks: SessionTasks,
        rules: RuleSet | None,
        announce: Callable[[int], None],
        park: Callable[[Handover], bool],
        received: bytes = b"",
        *,
        is_open: bool = False,
    ) -> None:
        """Start the traffic of two connected legs, applying `rules` if there are any.

        `announce` is called with the number of each command held for an operator; `park` is passed to `Ownership`;
        `received` holds what the client has sent behind its protocol header, which the broker has been sent. `is_open`
        is true for a connection that was parked.
        """
        self._tasks = tasks
        self._announce = announce
        self.passage.ask_for_frames()
        services, report = self._services, self._report
        self._begun(is_open=is_open)
        self._park = park
        self._allow_pumps()
        self._relays = tuple(
            Relay(
                self.legs[peer],
                self.legs[peer.other],
                self._new_direction(peer, received, is_open=is_open),
                self._share,
                self._follow_up,
                report.metrics.latency.observe,
                self._measure,
                services.brake,
                report.number,
                self.ownership,
            )
            for peer in (CLIENT, SERVER)
        )
        if report.tap is not None and not is_open:
            self._joins = report.tap.joins  # it has seen the beginning
        self._show_or_hide()
        if rules is not None:
            self.apply_rules(rules, set())

    def _allow_pumps(self) -> None:
        """Share the traffic with a pump, if both peers are connected by sockets."""
        pumps = self._services.pumps
        if pumps is not None and all(isinstance(leg.transport, SocketTransport) for leg in self.legs.values()):
            self.ownership = Ownership(pumps, self.legs, self._is_steady, self._lease, self._park)

    def settle_upstream(self) -> None:
        """Relay directly to the transport for which another one has stood in: that of a login, or of a pool."""
        leg = self.legs[SERVER]
        faulty = leg.transport if isinstance(leg.transport, FaultyTransport) else None
        stand_in = faulty.inner if faulty is not None else leg.transport
        settled = getattr(stand_in, "settled", None)
        if settled is None:
            return
        if isinstance(stand_in, LoginTransport):
            leg.connection.client = stand_in.sent  # by which mirrors log in, too
        self._report.upstream = settled
        if faulty is not None:
            faulty.inner = settled
            return
        leg.transport = settled
        self._allow_pumps()
        for relay in self._relays:
            relay.own_by(self.ownership)

    def learn(self, *, identity: str = "", upstream: str = "") -> None:
        """Update what is known of a client that logs in at the proxy: who it is, and which broker serves it."""
        self.passage.learn(identity=identity, upstream=upstream)
        if identity:
            self._report.introduce(self.passage.shown_client)

    async def run(self, nursery: trio.Nursery, received: bytes = b"", answer: bytes = b"") -> None:
        """Relay both directions until they end or the session is parked.

        `received` holds what the client has sent behind its protocol header, `answer` what the broker has sent so far.
        """
        inbound, outbound = self._relays
        nursery.start_soon(self._carry, outbound, answer, nursery.cancel_scope)
        await self._carry(inbound, received, nursery.cancel_scope)

    async def _carry(self, relay: Relay, received: bytes, scope: trio.CancelScope) -> None:
        """Relay one direction to its end, then end or wind down the session accordingly."""
        source, target = relay.source, relay.target
        try:
            by, reason = str(source.peer), "closed without connection.close"
            try:
                ending = await relay.run(received)
                if ending is DirectionEnding.PARKED:
                    return
                if ending is DirectionEnding.TARGET_GONE:
                    source.unfed = relay.direction.take_unfed()
                    await self._outlast(target, source, scope)
            except (self.ERROR, ConnectionRefusal, InterceptorFault) as error:
                await self._refuse(relay, error, scope)
                return
            except TransportBroken as error:
                cause = cause_of_end(source.transport, error)
                ending, reason = DirectionEnding.EOF, str(cause)
                by = "proxy" if isinstance(cause, EndedByFault) else by
                release_frames(cause)
                del cause
            if source.peer is SERVER:
                self._upstream_ended()
            if self._life.state is SessionState.LEAVING:
                if source.peer is CLIENT:
                    await self.release_all()  # delayed commands of the client still go to the broker
                    with suppress(TransportBroken):
                        await source.transport.send_eof()
                    scope.cancel()
                return  # whatever becomes of the upstream, the client has its time to answer
            if source.peer is SERVER and target.takes_close and self._report.end is None:
                self._closing.lose_upstream(reason, by)
                scope.cancel()
                return
            self._report.finish(SessionEnd(by, 0, f"{source.name} {reason}", is_abnormal=self._is_abnormal_end()))
            end_soon(scope, self._limits.close_timeout)
            with suppress(TransportBroken):
                if ending is DirectionEnding.EOF:
                    await self.release_all()
                    await target.transport.send(relay.direction.rest)
                await target.transport.send_eof()
        finally:
            self._directions_left -= 1
            if not self._directions_left:  # the other tasks of the session have nothing more to do
                scope.cancel()

    async def _refuse(self, relay: Relay, error: Exception, scope: trio.CancelScope) -> None:
        """End the connection for `error`, which ended one direction."""
        self._close_for(relay.source.peer, error, relay.direction)
        release_frames(error)
        scope.cancel()

    def _close_for(self, sender: Peer, error: Exception, direction: Direction | None = None) -> None:
        """Prepare connection.close to both peers, for a protocol error of `sender` or the verdict of a rule."""
        if isinstance(error, ConnectionRefusal):
            self._closing.refuse_by_rule(error)
        elif isinstance(error, InterceptorFault):
            self._close_for(error.sender, error.error)
            release_frames(error.error)
        elif isinstance(error, self.ERROR):
            refused: Any = error
            self._closing.refuse(sender, refused, self._as_answered(sender, refused, direction))

    async def _outlast(self, target: Leg[Any], source: Leg[Any], scope: trio.CancelScope) -> None:
        """Wait until `source` ends, because `target` no longer accepts data; give up after the close timeout.

        Raises `TransportBroken` when the source is gone.
        """
        with trio.move_on_after(self._limits.close_timeout) as patience:
            await source.linger()
        if patience.cancelled_caught:
            if target.peer is SERVER:
                self._closing.lose_upstream("takes no more")
            self._report.finish(SessionEnd(str(target.peer), 0, f"{target.name} takes no more"))
            end_soon(scope, 0)

    def stop(self) -> None:
        """Discard the relays, keeping the bytes that the readers have not been fed."""
        self._tasks = None
        for relay in self._relays:
            relay.source.unfed += relay.direction.take_unfed()
        self._relays = ()

    def let_go(self) -> None:
        """Release all references of a session that was parked or is over."""
        self.stop()
        self._announce, self._park = _ignore, _refuse
        if self.ownership is not None:
            self.ownership.let_go()
            self.ownership = None

    async def settle(self) -> None:
        """Send the broker the delayed commands of a client that is gone, without waiting for their deadlines."""
        passage = self.passage
        is_idle = passage.next_deadline == math.inf and not self.paused_channels
        if is_idle or passage.is_over or not self._closing.upstream_takes_more:
            return
        passage.release_all(trio.current_time())
        with trio.move_on_after(self._limits.close_timeout), suppress(TransportBroken):
            await self._release_queued(lambda: self.legs[SERVER].transport.send(passage.take_output(SERVER)))

    def end(self) -> None:
        """Close the meter of a session that is over, and replace its interceptor, so that no rule state is retained."""
        if self.metered is not None:
            self.metered.close()
        if self.interceptor is None:
            self.passage.end()
        else:
            client = self.interceptor.client
            self.interceptor.end()
            self.interceptor = None
            self.passage = self._new_pass_through(client)
        self.let_go()

    # --- effects of passed frames

    def _follow_up(self) -> None:
        """Apply the effects of the frames that the passage has just taken, except sending."""
        self._apply_effects()
        if self._drain is not None:
            self._close_if_drained(self._drain)

    def _apply_effects(self) -> None:
        """Apply the effects of passed frames, except sending output."""
        self._changes += 1
        if self._met:
            met = self._met.copy()
            self._met.clear()  # otherwise a method that cannot be followed would fail the other direction, too
            for each in met:
                self._on_method(*each)
        self._report.note_channels(self.channel_count)
        effects = self.passage.take_effects()
        if effects is not None or self._report.tap is not None:
            self._show_passed()
        if effects is not None:
            self._carry_out(effects)

    def _carry_out(self, effects: InterceptorEffects) -> None:
        """Carry out the side effects of rules, and update the timer and flow control for what still waits."""
        impair(effects.impairments, self.legs, self._tasks)
        log_effects(effects, self.passage, self._report, self._rules)
        if effects.mirrored:
            send_copies(effects.mirrored, self._services.mirrors, self._login(), self._report)
        for number in effects.held:
            with self._report.contained("hold not announced"):
                self._announce(number)
        for relay in self._relays:
            relay.make_room()
        if self._tasks is not None and self._timer.move(self.passage.next_deadline):
            self._tasks.start_soon(self._keep_time)

    def _note(self, is_server: bool, data: bytes | memoryview, began: float) -> None:
        """Measure a chunk that the client has sent or is sent, read when a turn began, and charge the tap budget."""
        self._measure(is_server, data, began)
        if self._tap_share is not None:
            self._keep_to_share(self._tap_share, began)

    # --- pumps

    def recall(self) -> None:
        """Take the connection back from its pump, if it has one."""
        if self.ownership is not None:
            self.ownership.recall()

    def _is_steady(self) -> bool:
        """Whether traffic only has to be forwarded and counted, so that a pump may relay it."""
        self._drop_interceptor()
        passage = self.passage
        return (
            self.interceptor is None
            and passage.gate is None
            and not passage.is_tapped
            and self.is_readable
            and self._tasks is not None
            and self._life.state is SessionState.RELAYING
            and self._report.end is None
            and self.is_open
            and all(relay.is_steady for relay in self._relays)
        )

    # --- rules

    def apply_rules(self, rules: RuleSet, kept: set[str]) -> None:
        """Apply a rule set, the first or a reloaded one, to all further traffic.

        The impairments of rules in `kept` stay in effect.
        """
        self._rules = rules
        for leg in self.legs.values():
            if isinstance(leg.transport, FaultyTransport):
                leg.transport.lift(kept)
        if self.interceptor is not None:
            self._replace_rules(rules)
        elif rules.rules and self._life.state is SessionState.RELAYING:
            self._intercept(rules)
        self._impair_from_start()

    def _replace_rules(self, rules: RuleSet) -> None:
        self.interceptor.evaluator = self.interceptor.evaluator.moved(rules)
        self.interceptor.ask_for_frames()

    def _impair_from_start(self) -> None:
        """Apply the impairments that connection rules demand."""
        if self._tasks is not None:
            started = self.passage.start(trio.current_time(), is_open=self.legs[CLIENT].is_open)
            impair(started, self.legs, self._tasks)

    def _intercept(self, rules: RuleSet) -> Interceptor[Any, Any]:
        """Replace the passage with an interceptor, between two chunks."""
        before = self.passage
        interceptor: Interceptor[Any, Any] = self._new_interceptor(rules)
        self.interceptor = interceptor
        interceptor.gate = before.gate
        self._replace_passage(interceptor)
        before.end()
        return interceptor

    def _drop_interceptor(self) -> None:
        """Replace the interceptor with a pass-through if no rule can match this client and no rule state is left."""
        interceptor = self.interceptor
        if interceptor is None or not self._may_drop_interceptor():
            return
        self._show_passed()
        self.show_gap()  # a pass-through shows frames at no cost, so that the pause can end
        client, gate = interceptor.client, interceptor.gate
        interceptor.end()
        self.interceptor = None
        following = self._new_pass_through(client, interceptor)
        following.gate = gate
        following.ask_for_frames()
        self._replace_passage(following)

    def _replace_passage(self, passage: Passage) -> None:
        self._changes += 1
        self.passage = passage
        for relay in self._relays:
            relay.passage = passage

    # --- operator actions

    def _interceptor_for_operator(self) -> Interceptor[Any, Any]:
        """The current interceptor; without rules, a new one with an empty rule set."""
        found: Interceptor[Any, Any] = self.interceptor or self._intercept(self._rules or RuleSet(()))
        return found

    def close_channel(self, number: int, text: str) -> None:
        """Close a channel on both legs."""
        close = self._close_of_channel(text)
        self._interceptor_for_operator().close_channel(number, close, trio.current_time())
        self.send_changes()

    def pause_channel(self, number: int) -> None:
        """Queue the client's further commands on a channel, in order."""
        self._interceptor_for_operator().pause_channel(number, trio.current_time())

    def resume_channel(self, number: int) -> None:
        """Forward the commands queued on a paused channel."""
        if self.interceptor is not None and self._tasks is not None:
            self.interceptor.resume_channel(number, trio.current_time())
            self.send_changes()

    @property
    def paused_channels(self) -> list[int]:
        """Numbers of the channels on which the client's commands are queued by `pause_channel`."""
        return [] if self.interceptor is None else self.interceptor.paused_channels

    def send_changes(self) -> None:
        """Apply and send the effects of a change from outside; a separate task sends to each leg."""
        self._apply_effects()
        if self._tasks is not None:
            for leg in self.legs.values():
                self._tasks.start_soon(self._send_output, [leg])

    def pause(self) -> None:
        """Stop reading from the client; the broker is sent heartbeats by the proxy meanwhile."""
        self._relays[0].pause()

    def resume(self) -> None:
        """Resume reading from the client."""
        for relay in self._relays:
            relay.resume()

    @property
    def is_paused(self) -> bool:
        return any(relay.is_paused for relay in self._relays)

    # --- heartbeats

    @property
    def owes_heartbeats(self) -> bool:
        """Whether the broker expects heartbeats that the client does not send: a rule limited its interval, or it is
        not read from."""
        upstream = self.legs[SERVER]
        if not upstream.connection.heartbeat or not upstream.takes_close:
            return False
        if self._relays and self._relays[0].is_unread:
            return True
        return not 0 < self.legs[CLIENT].connection.heartbeat <= upstream.connection.heartbeat

    async def send_heartbeat(self) -> None:
        """Send the broker a heartbeat, unless the connection is closing."""
        upstream = self.legs[SERVER]
        if upstream.takes_close and self._may_send_between():
            with suppress(TransportBroken):  # the relay of this direction reports the failure
                await upstream.transport.send(self.HEARTBEAT)

    async def keep_client_alive(self) -> None:
        """Send the client heartbeats until cancelled, while no broker does."""
        leg = self.legs[CLIENT]
        while leg.connection.heartbeat:
            await trio.sleep(leg.connection.heartbeat / 2)
            with suppress(TransportBroken):  # the relay of the other direction reports the failure
                await leg.transport.send(self.HEARTBEAT)

    # --- delayed and held commands

    async def _keep_time(self) -> None:
        """Forward delayed commands as they become due, until none is left."""
        while await self._timer.wait(self.passage.next_deadline):
            if self._state_read is not None:
                await self._state_read.wait()
            self._process(self.passage.tick, lambda: self.passage.next_deadline <= trio.current_time())
            await self._send_output()
            await self._services.turns.wait()

    def _process(self, some: Callable[[float], None], has_more: Callable[[], bool]) -> None:
        """Call `some`, which processes delayed or queued commands, until the turn ends or none are left.

        The output is not sent.
        """
        end = time.perf_counter() + self._services.turns.quantum
        while True:
            some(trio.current_time())
            self._apply_effects()
            if time.perf_counter() > end or not has_more():
                break

    def release(self, number: int, verdict: Verdict | None) -> None:
        """Forward a held command, with a replacement verdict if given. Raises `KeyError` if the command is not held."""
        self.passage.release(number, verdict, trio.current_time())
        if self._tasks is not None:
            self._tasks.start_soon(self._send_released)

    async def _send_released(self) -> None:
        self._apply_effects()
        await self._send_output()

    async def release_all(self) -> None:
        """Forward all delayed and held commands at once."""
        self.passage.release_all(trio.current_time())
        await self._go_on_releasing()

    async def _go_on_releasing(self) -> None:
        """Send all released commands, then close the connection if it is drained."""
        await self._release_queued(self._send_output)
        if self._drain is not None:
            self._close_if_drained(self._drain)

    async def _release_queued(self, send: Callable[[], Awaitable[None]]) -> None:
        """Release queued commands and `send` the output, yielding to other tasks between turns."""
        self._apply_effects()
        await send()
        while self.passage.is_releasing:
            await self._services.turns.wait()
            self._process(self.passage.go_on_releasing, lambda: self.passage.is_releasing)
            await send()

    def _taken_output(self, to: Peer) -> bytes | memoryview:
        """Take the pending output for a peer, outside a relay's turn, and measure it if it goes to the client."""
        output: bytes | memoryview = self.passage.take_output(to)
        if output and to is CLIENT:
            self._measure(True, output, time.perf_counter())
        return output

    async def _send_output(self, legs: Iterable[Leg[Any]] | None = None) -> None:
        """Send pending output to one or both peers, then end the session if a rule or a fault demands it."""
        for leg in legs or self.legs.values():
            output = self._taken_output(leg.peer)
            if output:
                with suppress(TransportBroken):  # the relay of this direction reports the failure
                    await leg.transport.send(output)
        self._end_if_over()

    def _end_if_over(self) -> None:
        """End the session if a rule refused the connection or a delayed command failed."""
        error = self.passage.refusal or self.passage.fault
        if error is not None:
            self._close_for(CLIENT, error)
            self._scope.cancel()

    # --- draining

    def drain(self, tasks: SessionTasks, reason: ConnectionForced = SHUTDOWN) -> None:
        """Complete the contents in progress, then send the client connection.close with this reason."""
        self._leaves_for = reason
        self._life.move(SessionEvent.DRAIN)
        self.resume()
        self._drain = drain = self._new_drain()
        for relay in self._relays:
            relay.direction.drain = drain
        self.passage.gate = self._passes_drain
        self.passage.ask_for_frames()
        self.passage.release_all(trio.current_time())
        self._apply_effects()
        tasks.start_soon(self._go_on_releasing)
        self._close_if_drained(drain)

    def _passes_drain(self, sender: Peer, frame: Any) -> bool:
        return self._drain is None or self._drain.passes(sender, frame)

    def _close_if_drained(self, drain: Farewell) -> None:
        """Send the client connection.close once the contents in progress at the start of the drain are complete."""
        tasks = self._tasks
        if tasks is None or self._life.state is not SessionState.DRAINING:
            return
        if self.passage.is_over or self.passage.is_releasing:
            return  # the session ends for that, or this is called again after the release
        close = drain.close(self._leaves_for)
        if close is None:
            return
        before = bytes(self._taken_output(CLIENT))
        self._life.move(SessionEvent.DRAINED)
        self._note_leaving()
        self._closing.drained(self._leaves_for)
        end_soon(tasks.cancel_scope, self._limits.close_timeout)
        tasks.start_soon(drain.send_close, before + close)


def end_soon(scope: trio.CancelScope, seconds: float) -> None:
    """Move the scope's deadline to at most `seconds` from now."""
    scope.deadline = min(scope.deadline, trio.current_time() + seconds)


def _refuse(handover: Handover) -> bool:
    """Refuse to park a session whose traffic has not begun."""
    return False


def _ignore(number: int) -> None:
    """Ignore a held command: no operator is waiting for it."""
