"""What passes between the legs of one session, and what follows from it besides sending.

Somewhat long, as the one place where what passages, rules, taps and operators want of a session is carried out.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

import trio

from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.methods import ConnectionClose, ConnectionOpenOk, ConnectionStartOk, ConnectionTuneOk, Method
from amqproxy.amqp091.transitions import CLIENT, SERVER, ConnectionState, Peer
from amqproxy.config import Limits
from amqproxy.proxy.interception.effects import InterceptorEffects
from amqproxy.proxy.interception.interceptor import Interceptor
from amqproxy.proxy.leg import Leg
from amqproxy.proxy.memory_budget import MemoryShare
from amqproxy.proxy.mirroring.mirror_publisher import MirrorLogin
from amqproxy.proxy.mirroring.mirrors import Mirrors
from amqproxy.proxy.session.closing import SHUTDOWN, Closing
from amqproxy.proxy.session.drain import Drain
from amqproxy.proxy.session.handshake import PacedHandshake
from amqproxy.proxy.session.ownership import Handover, Ownership
from amqproxy.proxy.session.pass_through import PassThrough
from amqproxy.proxy.session.passage import Passage
from amqproxy.proxy.session.relay import Relay
from amqproxy.proxy.session.release_timer import ReleaseTimer
from amqproxy.proxy.session.session_effects import impair, log_effects, send_copies
from amqproxy.proxy.session.session_meter import SessionMeter
from amqproxy.proxy.session.session_report import SessionReport
from amqproxy.proxy.session.session_state import SessionEvent, SessionLife, SessionState
from amqproxy.proxy.session.session_tasks import SessionTasks
from amqproxy.proxy.session.tap_budget import TapBudget, TapShare
from amqproxy.proxy.tap_brake import TapBrake
from amqproxy.pump.pumps import AnyPumped, Pumps
from amqproxy.rules.context import Client
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.verdict import Verdict
from amqproxy.sockets.transport import SocketTransport, TransportBroken
from amqproxy.taps.metering.message_meter import MessageMeter


class Traffic:
    """Carries out what the `passage` between `legs` wants, from the first frame on and until all that waited is sent.

    `metered` counts the messages that the client sends and is sent, if they are counted. Taps that may miss frames are
    shown what there is time for in `tap_budget`; for others, there is the `brake`. With `pumps`, one of them relays
    while nothing of all this is needed; `recall` before doing anything to what passes.

    The session's `scope` is cancelled where that ends the session; `closing` and `report` know why then.
    """

    __slots__ = (
        "_announce",
        "_brake",
        "_closing",
        "_drain",
        "_is_needed",
        "_legs",
        "_life",
        "_limits",
        "_met",
        "_mirrors",
        "_ownership",
        "_pumps",
        "_relays",
        "_report",
        "_rules",
        "_scope",
        "_share",
        "_tap_share",
        "_tasks",
        "_timer",
        "metered",
        "passage",
    )

    def __init__(
        self,
        legs: Mapping[Peer, Leg],
        client: Client,
        life: SessionLife,
        closing: Closing,
        report: SessionReport,
        scope: trio.CancelScope,
        limits: Limits,
        share: MemoryShare,
        mirrors: Mirrors | None,
        tap_budget: TapBudget | None = None,
        brake: TapBrake | None = None,
        pumps: Pumps | None = None,
    ) -> None:
        self._pumps = pumps
        self._ownership: Ownership | None = None
        self._brake = brake
        self._legs = legs
        self._life = life
        self._closing = closing
        self._report = report
        self._scope = scope
        self._limits = limits
        self._share = share
        self._mirrors = mirrors
        self._announce: Callable[[int], None] = _ignore
        self._tasks: SessionTasks | None = None
        self._relays: tuple[Relay, ...] = ()
        self._rules: RuleSet | None = None
        self._drain: Drain | None = None
        self._is_needed = False
        self._timer = ReleaseTimer()
        self._met: list[tuple[Peer, Method]] = []
        self._tap_share = None if tap_budget is None else TapShare(tap_budget)
        self.metered: SessionMeter | None = None
        self.passage: Passage
        self.know(client)

    def know(self, client: Client) -> None:
        """More is known of the client, before its first frame."""
        self.passage = PassThrough(self._legs, client, self._met, is_tapped=self._is_tapped)

    # --- from beginning to end

    def begin(
        self,
        tasks: SessionTasks,
        rules: RuleSet | None,
        handshake: PacedHandshake | None,
        announce: Callable[[int], None],
        park: Callable[[Handover], bool],
    ) -> tuple[Relay, Relay]:
        """Both legs are connected: what relays the client's frames, and what relays the server's.

        There is a `handshake` unless the connection is open; `park` is that of `Ownership`.
        """
        self._tasks = tasks
        self.passage.ask_for_frames()
        if rules is not None:
            self.apply_rules(rules, announce)
        client, server = self._legs[CLIENT], self._legs[SERVER]
        follow_up, observe = self._follow_up, self._report.metrics.latency.observe
        if self._report.metrics.messages is not None and self.metered is None:
            meter = MessageMeter(self._report.metrics.messages)
            self.metered = SessionMeter(meter, self._report.number, self._report.name)
        if self._pumps is not None and all(isinstance(leg.transport, SocketTransport) for leg in self._legs.values()):
            self._ownership = Ownership(self._pumps, self._legs, self._is_steady, self._lease, park)
        shared = self.passage, self._share, follow_up, observe, self._note, self._report.note_frames
        last = self._brake, self._report.number, self._ownership
        relays = Relay(client, server, *shared, handshake, *last), Relay(server, client, *shared, None, *last)
        self._relays = relays
        return relays

    def stop(self) -> None:
        """Nothing is relayed any more."""
        self._tasks = None
        self._relays = ()

    def let_go(self) -> None:
        """The session is parked: refer to nothing any more that refers to this."""
        self.stop()
        if self._ownership is not None:
            self._ownership.let_go()
            self._ownership = None

    async def settle(self) -> None:
        """Send what a client that is gone by now has sent, and that is not to be refused: as if its time had come."""
        passage = self.passage
        is_idle = passage.next_deadline == math.inf and not self.paused_channels
        if is_idle or passage.is_over or not self._closing.upstream_takes_more:
            return
        passage.release_all(trio.current_time())
        with trio.move_on_after(self._limits.close_timeout), suppress(TransportBroken):
            while True:
                self._apply_effects()
                await self._legs[SERVER].transport.send(passage.take_output(SERVER))
                if not passage.is_releasing:
                    break
                await trio.lowlevel.checkpoint()
                passage.go_on_releasing(trio.current_time())

    def end(self) -> None:
        """The session is over: nothing is kept of what rules had."""
        if self.metered is not None:
            self.metered.close()
        self._announce = _ignore
        self.passage.end()
        self.know(self.passage.client)

    # --- what follows from what has passed

    def _follow_up(self) -> None:
        """Do what follows from the frames that the passage has just taken, but for sending."""
        self._apply_effects()
        if self._drain is not None:
            self._close_if_drained(self._drain)

    def _apply_effects(self) -> None:
        """Do what follows from what has passed, but for sending it."""
        passage = self.passage
        for sender, method in self._met:
            self._on_method(sender, method)
        self._met.clear()
        self._report.note_channels(len(self._legs[CLIENT].connection.channels))
        effects = passage.take_effects()
        if effects is not None or self._report.tap is not None:
            for peer in (CLIENT, SERVER):
                for note, frames in passage.take_passed(peer):
                    self._report.note_frames(peer, frames, note)
        if effects is not None:
            self._carry_out(effects)

    def _carry_out(self, effects: InterceptorEffects) -> None:
        """Do what rules want besides, and note what may have changed of what waits."""
        impair(effects.impairments, self._legs, self._tasks)
        log_effects(effects, self.passage, self._report, self._rules)
        if effects.mirrored:
            upstream = self._legs[SERVER].connection
            login = None if upstream.client is None else MirrorLogin(upstream.client, upstream.virtual_host)
            send_copies(effects.mirrored, self._mirrors, login, self._report)
        for number in effects.held:
            with self._report.contained("hold not announced"):
                self._announce(number)
        for relay in self._relays:
            relay.make_room()
        if self._tasks is not None and self._timer.move(self.passage.next_deadline):
            self._tasks.start_soon(self._keep_time)

    def _on_method(self, sender: Peer, method: Method) -> None:
        """Do what follows from a method for the session itself."""
        if sender is SERVER:
            for relay in self._relays:
                if relay.handshake is not None:
                    relay.handshake.note_answer()
        if isinstance(method, ConnectionClose):
            self.resume()  # whichever peer closes, the client's answer is needed
        if isinstance(method, ConnectionStartOk):
            self._report.introduce(self.passage.shown_client)
        elif isinstance(method, ConnectionTuneOk):
            for leg in self._legs.values():  # none takes a frame above our own limit, whatever they agreed on
                agreed = leg.connection.frame_max or self._limits.frame_max
                leg.reader.set_frame_max(min(agreed, self._limits.frame_max))
        elif isinstance(method, ConnectionClose) and self._closing.reset_if_silent(sender, method.reply_code):
            self._scope.cancel()
        elif isinstance(method, ConnectionOpenOk):
            self._scope.deadline = math.inf
            connection = self._legs[CLIENT].connection
            self._report.note_open(connection.virtual_host, connection.heartbeat)
            impair(self.passage.start(trio.current_time(), is_open=True), self._legs, self._tasks)
        else:
            self._report.note_method(sender, method, trio.current_time())

    def end_handshake(self) -> None:
        """The server moves the handshake on no more."""
        for relay in self._relays:
            if relay.handshake is not None:
                relay.handshake.end()

    def _note(self, is_server: bool, data: bytes | memoryview, began: float) -> None:
        """The client has sent something, or is sent it, that was read when a turn began."""
        self._measure(is_server, data, began)
        if self._tap_share is not None:
            self._keep_to_share(self._tap_share, began)

    def _measure(self, is_server: bool, data: bytes | memoryview, now: float) -> None:
        """Have the meter count messages."""
        if self.metered is not None:
            self.metered.feed(is_server, data, now)

    def _keep_to_share(self, share: TapShare, began: float) -> None:
        """Show nothing for a while where showing took too much time, and then again.

        What a pass-through shows are the bytes as they lie there: that takes no time.
        """
        tap = self._report.tap
        if tap is None or isinstance(self.passage, PassThrough):
            return
        if share.is_hidden:
            if tap.may_miss_frames and not share.may_show(began):
                return
            self.show_gap()
        elif tap.may_miss_frames and share.spend(began, time.perf_counter()):
            share.is_hidden = True
            share.frames_before = self._frames
        else:
            return
        self.passage.is_tapped = self._is_tapped
        self.passage.ask_for_frames()

    def show_gap(self) -> None:
        """Show the tap how much it has missed, if nothing is shown for a while: that is over."""
        share = self._tap_share
        if share is not None and share.is_hidden:
            share.is_hidden = False
            self._report.note_gap(max(1, self._frames - share.frames_before))

    @property
    def _frames(self) -> int:
        meter = None if self.metered is None else self.metered.meter
        return 0 if meter is None else meter.frames

    @property
    def _is_tapped(self) -> bool:
        """Is what passes to be shown to the report's tap now?"""
        return self._report.tap is not None and not (self._tap_share is not None and self._tap_share.is_hidden)

    # --- pumps

    @property
    def ownership(self) -> Ownership | None:
        """Who receives and sends, where that may be a pump."""
        return self._ownership

    def recall(self) -> None:
        """Have the connection here, if a pump has it."""
        if self._ownership is not None:
            self._ownership.recall()

    def _is_steady(self) -> bool:
        """Is there nothing to be done with what passes but to send it on, and to count it?"""
        self._drop_interceptor()
        passage = self.passage
        return (
            isinstance(passage, PassThrough)
            and passage.relays_unseen
            and not passage.is_tapped
            and self._tasks is not None
            and self._life.state is SessionState.RELAYING
            and not (self._brake is not None and self._brake.is_on)
            and all(leg.connection.state is ConnectionState.OPEN for leg in self._legs.values())
            and not any(relay.is_paused or relay.handshake is not None for relay in self._relays)
        )

    def _drop_interceptor(self) -> None:
        """Go on without the interceptor where none of the rules can hold for this client, and none ever could."""
        passage = self.passage
        if (
            not isinstance(passage, Interceptor)
            or self._is_needed
            or passage.evaluator.may_act
            or passage.is_over
            or passage.is_draining
            or passage.gate is not None
            or passage.next_deadline != math.inf
            or passage.paused_channels
            or self._legs[CLIENT].connection.state is not ConnectionState.OPEN
        ):
            return
        client = passage.client
        passage.end()
        self.passage = PassThrough(self._legs, client, self._met, is_tapped=self._is_tapped)
        for leg in self._legs.values():
            leg.reader.unseen = None
        self.passage.ask_for_frames()
        for relay in self._relays:
            relay.passage = self.passage

    def _lease(self, descriptors: tuple[int, int], returned: Callable[[], object]) -> AnyPumped | None:
        """The connection as a pump takes it; None where that is not possible."""
        assert self._pumps is not None
        readers = self._legs[CLIENT].reader, self._legs[SERVER].reader
        for reader in readers:
            if reader.is_paused or reader.error is not None or reader.held_size > self._pumps.most_held:
                return None
            if any(state.is_watched or state.is_shown for state in reader.content_states.values()):
                return None
        note = None if self.metered is None or self.metered.meter is None else self.metered.feed
        return self._pumps.connection(readers, descriptors, returned, note)

    @property
    def first_known(self) -> Client | None:
        """What was known of the client before its first frame; None while there is an interceptor."""
        return self.passage.first_known if isinstance(self.passage, PassThrough) else None

    def _taken_output(self, to: Peer) -> bytes | memoryview:
        """What is to be sent to a peer now, without anything having been received."""
        output = self.passage.take_output(to)
        if output and to is CLIENT:
            self._measure(True, output, time.perf_counter())
        return output

    # --- rules

    def apply_rules(self, rules: RuleSet, announce: Callable[[int], None]) -> None:
        """Apply rules, or other ones, to what passes from here on.

        `announce` is called with the number of each command that waits for an operator from then on.
        """
        self._rules = rules
        if isinstance(self.passage, Interceptor):
            is_open = self._legs[CLIENT].connection.state is ConnectionState.OPEN
            self._is_needed = self._is_needed or (is_open and self.passage.evaluator.may_act)
            self.passage.evaluator = self.passage.evaluator.moved(rules)
            self.passage.ask_for_frames()
        elif rules.rules and self._life.state is SessionState.RELAYING:
            self._intercept(rules, announce)
        if self._tasks is not None:
            is_open = self._legs[CLIENT].connection.state is ConnectionState.OPEN
            impair(self.passage.start(trio.current_time(), is_open=is_open), self._legs, self._tasks)

    def apply_tap(self) -> None:
        """Show the report's tap, if it has one now, what passes from here on."""
        if self._tap_share is not None:
            self._tap_share.is_hidden = False
        self.passage.is_tapped = self._is_tapped
        if self._relays:
            self.passage.ask_for_frames()

    def _intercept(self, rules: RuleSet, announce: Callable[[int], None]) -> Interceptor:
        """Have an interceptor take what comes from here on, between two chunks."""
        self._announce = announce
        client, met = self.passage.client, self._met
        self.passage = interceptor = Interceptor(
            {peer: leg.connection for peer, leg in self._legs.items()},
            rules.evaluator(client),
            client,
            random=random.random,
            time=time.time,
            met=lambda sender, method: met.append((sender, method)),
            is_tapped=self._is_tapped,
            share=self._share,
            body_limit=self._limits.rule_body,
        )
        for relay in self._relays:
            relay.passage = interceptor
        return interceptor

    # --- what an operator wants

    def interceptor(self, announce: Callable[[int], None]) -> Interceptor:
        """The session's interceptor; where there are no rules, there is one from here on. For an open connection."""
        self._is_needed = True
        if isinstance(self.passage, Interceptor):
            return self.passage
        return self._intercept(self._rules or RuleSet(()), announce)

    def send_changes(self, tasks: SessionTasks) -> None:
        """Do what follows from what was changed from outside: neither peer waits for the other to take its part."""
        self._apply_effects()
        for leg in self._legs.values():
            tasks.start_soon(self._send_output, [leg])

    def pause(self) -> None:
        """Read nothing more from the client, whose heartbeats the broker gets from us."""
        self._relays[0].pause()

    def resume(self) -> None:
        """Read from the client again."""
        for relay in self._relays:
            relay.resume()

    @property
    def is_paused(self) -> bool:
        return any(relay.is_paused for relay in self._relays)

    @property
    def paused_channels(self) -> list[int]:
        """The numbers of the channels on which the client's commands wait to be resumed."""
        return self.passage.paused_channels if isinstance(self.passage, Interceptor) else []

    @property
    def is_client_unread(self) -> bool:
        """Is the client, on purpose, not being read from, so that its heartbeats do not come?"""
        return bool(self._relays) and self._relays[0].is_unread

    # --- commands that wait

    async def _keep_time(self) -> None:
        """Send on what has waited long enough, until nothing waits."""
        while await self._timer.wait(self.passage.next_deadline):
            self.passage.tick(trio.current_time())
            self._apply_effects()
            await self._send_output()

    def release(self, number: int, verdict: Verdict | None, tasks: SessionTasks) -> None:
        """Send on a held command, with another verdict if one is given. `KeyError` when it is not held."""
        self.passage.release(number, verdict, trio.current_time())
        self._apply_effects()
        tasks.start_soon(self._send_output)

    async def release_all(self) -> None:
        """Send all that waits, since there is nothing more to wait for."""
        self.passage.release_all(trio.current_time())
        await self._go_on_releasing()

    async def _go_on_releasing(self) -> None:
        """Send what is released, and release the rest of it, with a turn for all others in between."""
        while True:
            self._apply_effects()
            await self._send_output()
            if not self.passage.is_releasing:
                break
            await trio.lowlevel.checkpoint()
            self.passage.go_on_releasing(trio.current_time())
        if self._drain is not None:
            self._close_if_drained(self._drain)

    async def _send_output(self, legs: Iterable[Leg] | None = None) -> None:
        """Send what has waited, to one or both peers, and end the session if that is what it comes to."""
        for leg in legs or self._legs.values():
            output = self._taken_output(leg.peer)
            if output:
                with suppress(TransportBroken):  # its own direction reports what happened
                    await leg.transport.send(output)
        if self.passage.refusal is not None:
            self._closing.refuse_by_rule(self.passage.refusal)
            self._scope.cancel()
        elif self.passage.fault is not None:
            self._closing.refuse(self.passage.fault.sender, self.passage.fault.error)
            self._scope.cancel()

    # --- draining

    def drain(self, tasks: SessionTasks) -> None:
        """Complete the contents in progress, then send the client connection.close."""
        self._life.move(SessionEvent.DRAIN)
        self.resume()
        self._drain = drain = Drain(self._legs[CLIENT], {peer: leg.reader for peer, leg in self._legs.items()})
        for relay in self._relays:
            relay.drain = drain
        self.passage.gate = self._passes_drain
        self.passage.ask_for_frames()
        self.passage.release_all(trio.current_time())
        self._apply_effects()
        tasks.start_soon(self._go_on_releasing)
        self._close_if_drained(drain)

    def _passes_drain(self, sender: Peer, frame: Frame) -> bool:
        passes = self._drain is None or self._drain.passes(sender, frame)
        if not passes and frame.channel == 0:  # such as the answer to our close
            self._report.note_own_frames(sender, sender, [frame])
        return passes

    def _close_if_drained(self, drain: Drain) -> None:
        """Send the client connection.close, once the contents in progress at the start of the drain are complete."""
        tasks = self._tasks
        if tasks is None or self._life.state is not SessionState.DRAINING:
            return
        if self.passage.is_over or self.passage.is_releasing:
            return  # it ends for that, or is asked again
        close = drain.close(SHUTDOWN)
        if close is None:
            return
        before = bytes(self._taken_output(CLIENT))
        self._life.move(SessionEvent.DRAINED)
        self.passage.is_draining = True
        self._closing.drained()
        end_soon(tasks.cancel_scope, self._limits.close_timeout)
        tasks.start_soon(drain.send_close, before + close)


def end_soon(scope: trio.CancelScope, seconds: float) -> None:
    """Give what is left of two directions so long."""
    scope.deadline = min(scope.deadline, trio.current_time() + seconds)


def _ignore(number: int) -> None:
    """No operator is waiting for held commands."""
