"""What a session consists of while it is served: all that a session which a pump has does without."""

from __future__ import annotations

from collections.abc import Mapping

import trio

from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010_leg import AMQP010Leg
from amqproxy.proxy.leg import Leg, new_leg
from amqproxy.proxy.memory_budget import MemoryShare
from amqproxy.proxy.session.amqp010_traffic import AMQP010Traffic
from amqproxy.proxy.session.client_observer import ClientObserver
from amqproxy.proxy.session.closing import Closing
from amqproxy.proxy.session.session_report import SessionReport
from amqproxy.proxy.session.session_services import SessionServices
from amqproxy.proxy.session.session_state import SessionLife
from amqproxy.proxy.session.traffic import Traffic
from amqproxy.rules.context import Client
from amqproxy.sockets.transport import StreamTransport, Transport
from amqproxy.taps.tap import Tap


class SessionParts:
    """The parts of session `number`, whose client is at `transport`; `legs` has the upstream's leg once it is dialled.

    `scope` is that of the task that runs the session; `directions` are those that have not ended. `amqp010` is what
    passes in place of `traffic`, once it is known that the client speaks AMQP 0-10.
    """

    __slots__ = ("amqp010", "closing", "directions", "legs", "life", "observer", "report", "scope", "share", "traffic")

    def __init__(
        self,
        services: SessionServices,
        number: int,
        name: str,
        transport: Transport,
        client: Client,
        tap: Tap | None = None,
    ) -> None:
        metrics, limits = services.metrics, services.limits
        self.report = report = SessionReport(
            number, name, metrics, tap, services.rule_log, is_tls=isinstance(transport, StreamTransport)
        )
        self.legs: dict[Peer, Leg] = {CLIENT: new_leg(CLIENT, transport, limits, metrics, report, services.turns)}
        self.closing = Closing(self.legs, report)
        self.share = MemoryShare(services.memory)
        self.life = SessionLife()
        self.scope = trio.CancelScope()
        self.traffic = Traffic(
            self.legs,
            client,
            self.life,
            self.closing,
            report,
            self.scope,
            limits,
            self.share,
            services.mirrors,
            services.tap_budget,
            services.brake,
            services.pumps,
        )
        self.observer = ClientObserver(self.legs[CLIENT].connection, self.traffic, report, services.topology)
        self.directions = 2
        self.amqp010: AMQP010Traffic | None = None

    def connect(self, transport: Transport, services: SessionServices) -> Leg:
        """The upstream is there: its leg."""
        leg = new_leg(SERVER, transport, services.limits, services.metrics, self.report, services.turns)
        self.legs[SERVER] = leg
        self.report.upstream = transport
        return leg

    def speak_amqp010(self, known: Client, services: SessionServices) -> AMQP010Traffic:
        """The client speaks AMQP 0-10, and the upstream is there."""
        self.amqp010 = AMQP010Traffic(
            self.legs[CLIENT].transport,
            self.legs[SERVER].transport,
            known,
            self.life,
            self.closing,
            self.report,
            self.scope,
            services,
            self.share,
        )
        return self.amqp010

    @property
    def carrier(self) -> Traffic | AMQP010Traffic:
        """What carries the traffic, of the protocol that the client speaks."""
        return self.traffic if self.amqp010 is None else self.amqp010

    @property
    def watched_legs(self) -> Mapping[Peer, Leg | AMQP010Leg]:
        """The legs, of the protocol that the client speaks."""
        return self.legs if self.amqp010 is None else self.amqp010.legs

    def let_go(self) -> None:
        """They are used no more: undo the references of one to another, so that they are freed at once."""
        self.share.clear()
        self.traffic.let_go()
        if self.amqp010 is not None:
            self.amqp010.let_go()
        self.observer.let_go()
