"""What rules want of a session of AMQP 0-10 besides what its relays send, and how it ends where they close it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

import trio

from amqproxy.amqp010.command_numbering import CommandNumbering
from amqproxy.amqp010.connection import ConnectionState
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.methods import Method
from amqproxy.amqp091.methods import ConnectionStartOk
from amqproxy.conversion.method_views import DEFAULT_VHOST, method_view
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010_interception.interceptor import AMQP010Interceptor
from amqproxy.proxy.amqp010_leg import AMQP010Leg
from amqproxy.proxy.faulty_transport import FaultyTransport
from amqproxy.proxy.memory_budget import MemoryShare
from amqproxy.proxy.mirroring.mirror_publisher import MirrorLogin
from amqproxy.proxy.session.amqp010_relay import AMQP010Relay
from amqproxy.proxy.session.release_timer import ReleaseTimer
from amqproxy.proxy.session.session_effects import impair, log_effects, send_copies
from amqproxy.proxy.session.session_report import SessionEnd, SessionReport
from amqproxy.proxy.session.session_services import SessionServices
from amqproxy.proxy.session.session_tasks import SessionTasks
from amqproxy.proxy.session.traffic import end_soon
from amqproxy.rules.context import Client
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.verdict import Verdict
from amqproxy.sockets.transport import TransportBroken


class AMQP010Rules:
    """Applies rules between the `legs` of one session, by its `interceptor`.

    `announce` is called with the number of each command that waits for an operator from then on, `note_passed` where
    something has passed that had waited. What is kept counts for the session's `share`. `numberings` have the ids of
    commands, by their sender, where some have passed before.
    """

    def __init__(
        self,
        legs: Mapping[Peer, AMQP010Leg],
        known: Client,
        met: list[tuple[Peer, int, Method]],
        saw: Callable[[Peer, bytes], None],
        rules: RuleSet,
        report: SessionReport,
        services: SessionServices,
        share: MemoryShare,
        announce: Callable[[int], None],
        note_passed: Callable[[], None],
        numberings: Mapping[Peer, CommandNumbering] | None = None,
    ) -> None:
        self._legs = legs
        self._rules = rules
        self._report = report
        self._mirrors = services.mirrors
        self._close_timeout = services.limits.close_timeout
        self._announce = announce
        self._note_passed = note_passed
        self._timer = ReleaseTimer()
        self._tasks: SessionTasks | None = None
        self._relays: Iterable[AMQP010Relay] = ()
        self._has_ended = False
        self.interceptor = AMQP010Interceptor(
            {peer: leg.connection for peer, leg in legs.items()},
            rules.evaluator(known),
            known,
            random=random.random,
            time=time.time,
            met=lambda sender, channel, method: met.append((sender, channel, method)),
            saw=saw,
            is_tapped=report.tap is not None,
            share=share,
            body_limit=services.limits.rule_body,
            numberings=numberings,
        )

    def begin(self, tasks: SessionTasks, relays: Iterable[AMQP010Relay]) -> None:
        """Both legs are connected, and rules apply from here on."""
        self._tasks, self._relays = tasks, relays
        impair(self.interceptor.start(trio.current_time(), is_open=self._legs[CLIENT].is_open), self._legs, self._tasks)

    def apply(self, rules: RuleSet, kept: set[str]) -> None:
        """Go by other rules from here on, of which those that are `kept` go on with what they do to bytes."""
        self._rules = rules
        for leg in self._legs.values():
            if isinstance(leg.transport, FaultyTransport):
                leg.transport.lift(kept)
        self.interceptor.evaluator = self.interceptor.evaluator.moved(rules)
        impair(self.interceptor.start(trio.current_time(), is_open=self._legs[CLIENT].is_open), self._legs, self._tasks)

    def opened(self) -> None:
        """The connection is open."""
        impair(self.interceptor.start(trio.current_time(), is_open=True), self._legs, self._tasks)

    # --- what follows from what has passed

    def follow_up(self) -> None:
        """Do what rules want besides, and note what may have changed of what waits."""
        effects = self.interceptor.take_effects()
        impair(effects.impairments, self._legs, self._tasks)
        log_effects(effects, self.interceptor, self._report, self._rules)
        if effects.mirrored:
            upstream = self._legs[SERVER].connection
            start = None if upstream.client is None else method_view(CLIENT, upstream.client)
            login = (
                MirrorLogin(start, upstream.virtual_host or DEFAULT_VHOST)
                if isinstance(start, ConnectionStartOk)
                else None
            )
            send_copies(effects.mirrored, self._mirrors, login, self._report)
        for number in effects.held:
            with self._report.contained("hold not announced"):
                self._announce(number)
        for relay in self._relays:
            relay.make_room()
        if self._tasks is not None and self._timer.move(self.interceptor.next_deadline):
            self._tasks.start_soon(self._keep_time)

    # --- commands that wait

    async def _keep_time(self) -> None:
        """Send on what has waited long enough, until nothing waits."""
        while await self._timer.wait(self.interceptor.next_deadline):
            self.interceptor.tick(trio.current_time())
            await self.send_output()

    def release(self, number: int, verdict: Verdict | None) -> None:
        """Send on a held command, with another verdict if one is given. `KeyError` when it is not held."""
        self.interceptor.release(number, verdict, trio.current_time())
        if self._tasks is not None:
            self._tasks.start_soon(self.send_output)

    async def release_all(self) -> None:
        """Send all that waits, since there is nothing more to wait for."""
        self.interceptor.release_all(trio.current_time())
        await self.go_on_releasing()

    async def go_on_releasing(self) -> None:
        """Send what is released, and release the rest of it, with a turn for all others in between."""
        while True:
            await self.send_output()
            if not self.interceptor.is_releasing:
                break
            await trio.lowlevel.checkpoint()
            self.interceptor.go_on_releasing(trio.current_time())

    async def settle(self) -> None:
        """Send the broker what waits, now that the connection ends: by turns, as `go_on_releasing`."""
        if self.interceptor.is_over:
            return
        self.interceptor.release_all(trio.current_time())
        while True:
            self.follow_up()
            await self._legs[SERVER].transport.send(self.interceptor.take_output(SERVER))
            if not self.interceptor.is_releasing:
                break
            await trio.lowlevel.checkpoint()
            self.interceptor.go_on_releasing(trio.current_time())

    async def send_output(self) -> None:
        """Send both peers what there is for them, and end the session if that is what it comes to."""
        self.follow_up()
        self._note_passed()
        for leg in self._legs.values():
            output = self.interceptor.take_output(leg.peer)
            if output:
                with suppress(TransportBroken):  # its own direction reports what happened
                    await leg.transport.send(output)
        if self.interceptor.refusal is not None:
            self._finish(self.interceptor.refusal)

    # --- the end

    def close(self, sender: Peer, error: ProtocolError) -> None:
        """The connection has to end, for a rule or for what `sender` did wrong; both peers get connection.close."""
        if not self.interceptor.is_over:
            self.interceptor.close(error, f"the {sender} broke the protocol")
        if self.interceptor.refusal is None and not self._has_ended:
            self._report.note_ending_violation(sender, error)
        self._finish(error)

    def _finish(self, error: ProtocolError) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        self._report.finish(SessionEnd("proxy", int(error.code), error.reply_text))
        if self._tasks is not None:
            end_soon(self._tasks.cancel_scope, self._close_timeout)

    def end(self) -> None:
        """The session is over."""
        self._tasks, self._relays = None, ()
        self._note_passed = _ignore

    async def linger(self, source: AMQP010Leg) -> None:
        """Read from a peer that has been sent connection.close, until it has answered or is gone."""
        reader, data = source.reader, b""
        with suppress(TransportBroken):
            await self.send_output()
            while source.connection.state is not ConnectionState.CLOSED:
                if not reader.is_paused:
                    data = await source.transport.receive() or b""
                    if not data:
                        break
                if reader.error is None:
                    frames = reader.resume() if reader.is_paused else reader.feed(data)
                    self.interceptor.take(source.peer, frames, trio.current_time())
                    await self.send_output()
                    await trio.lowlevel.checkpoint()


def _ignore() -> None:
    """What passes now is no longer of this one."""
