"""What passes between the legs of one session of AMQP 0-10, and what follows from it besides sending."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

import trio

from amqproxy.amqp010.controls import (
    ConnectionClose,
    ConnectionOpenOk,
    ConnectionStartOk,
    ConnectionTune,
    SessionAttached,
)
from amqproxy.amqp010.domains import CloseCode
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.protocol_header import HEADER, NAME
from amqproxy.amqp010.transitions import ConnectionState
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010_leg import AMQP010Leg
from amqproxy.proxy.memory_budget import MemoryShare
from amqproxy.proxy.session.amqp010_closing import close_both
from amqproxy.proxy.session.amqp010_pass_through import AMQP010PassThrough
from amqproxy.proxy.session.amqp010_passage import AMQP010Passage
from amqproxy.proxy.session.amqp010_relay import AMQP010Relay
from amqproxy.proxy.session.amqp010_rules import AMQP010Rules
from amqproxy.proxy.session.amqp010_session_meter import AMQP010SessionMeter
from amqproxy.proxy.session.session_report import SessionEnd, SessionReport
from amqproxy.proxy.session.session_services import SessionServices
from amqproxy.proxy.tap_brake import TapBrake
from amqproxy.rules.context import Client
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.sockets.transport import Transport, TransportBroken
from amqproxy.taps.amqp010_session_ends import SessionEnds


def _ignore(number: int) -> None:
    """No operator is waiting for held commands."""


class AMQP010Traffic:
    """Relays both directions between a client and its upstream, through the `passage` between their legs.

    `metered` counts the messages. `scope` is that of the session: its deadline, the one for the handshake, is lifted
    when the connection is open, or cannot be read. With `rules`, these decide what passes; what they keep counts for
    the session's `share`, and `announce` is called with the number of each command that waits for an operator.
    """

    def __init__(
        self,
        client: Transport,
        upstream: Transport,
        known: Client,
        report: SessionReport,
        scope: trio.CancelScope,
        services: SessionServices,
        share: MemoryShare,
        rules: RuleSet | None = None,
        announce: Callable[[int], None] = _ignore,
    ) -> None:
        self._report = report
        self._scope = scope
        self._close_timeout = services.limits.close_timeout
        tallies = report.metrics.amqp010_tallies
        self.legs: Mapping[Peer, AMQP010Leg] = {
            CLIENT: AMQP010Leg(CLIENT, client, tallies),
            SERVER: AMQP010Leg(SERVER, upstream, tallies),
        }
        self._met: list[tuple[Peer, int, Method]] = []
        self.metered = AMQP010SessionMeter(report.metrics, report.contained)
        self._ends = SessionEnds()
        self._is_login = True
        self.rules: AMQP010Rules | None = None
        self.passage: AMQP010Passage
        if rules is not None and rules.rules:
            self.rules = AMQP010Rules(
                self.legs, known, self._met, self.metered.feed, rules, report, services, share, announce
            )
            self.passage = self.rules.interceptor
        else:
            self.passage = AMQP010PassThrough(
                self.legs, known, self._met, self.metered.feed, self._note_deviation, is_tapped=report.tap is not None
            )
        self._relays: tuple[AMQP010Relay, ...] = tuple(self._relay(peer, services.brake) for peer in (CLIENT, SERVER))
        self._ended_by: Peer | None = None

    def _relay(self, source: Peer, brake: TapBrake | None) -> AMQP010Relay:
        return AMQP010Relay(
            self.legs[source],
            self.legs[source.other],
            self.passage,
            self._follow_up,
            self._greet,
            self._report.metrics.latency.observe,
            self._note_violation,
            self._note_fault,
            brake,
            self._report.number,
        )

    @property
    def is_open(self) -> bool:
        """Is the connection past its handshake, and neither peer ending it?"""
        return self.legs[CLIENT].connection.state is ConnectionState.OPEN

    @property
    def sessions(self) -> dict[int, bytes]:
        """The names of the sessions that the client is attached to, by the numbers of their channels."""
        channels = self.legs[CLIENT].connection.channels
        return {number: each.session.name for number, each in channels.items() if each.session is not None}

    # --- from beginning to end

    async def run(self, nursery: trio.Nursery, received: bytes) -> None:
        """Until it is over. `received` is what the client has sent so far. `ProtocolError` as of the relays."""
        client, server = self._relays
        if self.rules is not None:
            self.rules.begin(nursery, self._relays)
        nursery.start_soon(partial(self._carry, server, b"", nursery.cancel_scope))
        await self._carry(client, received, nursery.cancel_scope)

    async def _carry(self, relay: AMQP010Relay, received: bytes, scope: trio.CancelScope) -> None:
        reason, rules = "closed", self.rules
        try:
            await relay.run(received)
            if rules is not None:
                await rules.release_all()
        except ProtocolError as error:
            assert rules is not None  # without, all passes
            rules.close(relay.source.peer, error)
            await rules.linger(relay.source)
        except TransportBroken as error:  # whichever of the two it is, there is nothing to be carried any more
            reason = str(error)
            scope.cancel()
        sender = relay.source.peer
        if self._ended_by is None:
            self._ended_by = sender
            end = SessionEnd(str(sender), 0, f"{reason}, after {NAME}", is_abnormal=self.is_open)
            self._report.finish(end)
            scope.deadline = min(scope.deadline, trio.current_time() + self._close_timeout)
        try:
            await relay.target.transport.send_eof()
        except TransportBroken:
            scope.cancel()

    def apply_tap(self) -> None:
        """Show the report's tap, if it has one now, what passes from here on."""
        self.passage.is_tapped = self._report.tap is not None

    async def close_peers(self) -> None:
        """The relays have stopped: close the connections in good order, if the proxy ends them without rules."""
        end = self._report.end
        if self.rules is None and end is not None and end.by == "proxy":
            await close_both(self._relays, self._report, end.reason, self._close_timeout)

    def end(self) -> None:
        """The session is over."""
        self.metered.close()
        self._relays = ()
        if self.rules is not None:
            self.rules.end()
        self.passage.end()

    # --- what follows from what has passed

    def _greet(self, sender: Peer, header: bytes) -> bool:
        """Take a peer's protocol header: do frames follow?"""
        if sender is SERVER:
            self._report.note_protocol_header(header, SERVER)
        is_ours = header == HEADER
        if not is_ours:
            self._lift_deadline()
        elif len(header) == len(HEADER):
            for leg in self.legs.values():
                leg.connection.receive_header(sender, header)
        return is_ours

    def _follow_up(self) -> None:
        if self.rules is not None:
            self.rules.follow_up()
        for sender, channel, method in self._met:
            self._on_method(sender, channel, method)
        self._met.clear()
        self._report.note_channels(len(self.sessions))
        if self._report.tap is not None:
            for peer in (CLIENT, SERVER):
                for note, chunk in self.passage.take_passed(peer):
                    self._report.note_amqp010_frames(peer, chunk, note)

    def _on_method(self, sender: Peer, channel: int, method: Method) -> None:
        match method:
            case ConnectionStartOk():
                self._report.introduce(self.passage.shown_client)
            case ConnectionTune():
                self._is_login = False
            case ConnectionOpenOk():
                self._lift_deadline()
                self._report.note_open(self.legs[CLIENT].connection)
                if self.rules is not None:
                    self.rules.opened()
            case ConnectionClose():
                if sender is SERVER and self._is_login and method.reply_code == CloseCode.CONNECTION_FORCED:
                    self._report.metrics.logins_refused.inc()
                self._report.note_close(sender, method.reply_code or 0, method.reply_text or "")
            case SessionAttached():
                self._report.metrics.channels_opened.inc()
            case _:
                code = self._ends.code(sender, channel, method)
                if code is not None:
                    self._report.note_channel_close(sender, code)

    def _lift_deadline(self) -> None:
        self._scope.deadline = math.inf

    def _note_violation(self, sender: Peer, error: ProtocolError) -> None:
        """Note that a peer sent what cannot be read: it passes all the same."""
        self._lift_deadline()
        self.metered.close()
        self._report.note_passed_violation(sender, error, "passes unread from here on")

    def _note_deviation(self, sender: Peer, error: ProtocolError) -> None:
        """Note that a peer sent a control of the connection's own that may not come."""
        self._lift_deadline()
        self._report.note_passed_violation(sender, error, "passes all the same")

    def _note_fault(self, sender: Peer, failure: Exception) -> None:
        """A fault of ours: what this peer sends passes unread from here on."""
        self._lift_deadline()
        self.metered.close()
        with self._report.contained(f"what the {sender} sends is not read any further"):
            raise failure
