"""What is kept of a session while a pump has its connection: some two KiB, in place of its tasks and parts.

`ParkedSession.of` takes what is needed from the parts of a session, and `parts` makes others like them.
"""

from __future__ import annotations

import socket
from typing import Any

import msgspec
import trio

from amqproxy.amqp010.command_numbering import CommandNumbering
from amqproxy.amqp091.connection import SILENCE
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.proxy.amqp010_leg import AMQP010Leg
from amqproxy.proxy.leg import Leg
from amqproxy.proxy.session.amqp010_packed_leg import AMQP010PackedLeg, amqp010_packed_leg, unpack_amqp010_leg
from amqproxy.proxy.session.amqp010_session_meter import AMQP010SessionMeter
from amqproxy.proxy.session.closing import FAILURE
from amqproxy.proxy.session.ownership import Handover
from amqproxy.proxy.session.packed_leg import PackedLeg, packed_leg, unpack_leg
from amqproxy.proxy.session.session_meter import SessionMeter
from amqproxy.proxy.session.session_parts import SessionParts
from amqproxy.proxy.session.session_report import SessionReport
from amqproxy.proxy.session.session_services import SessionServices
from amqproxy.proxy.session.session_state import SessionState
from amqproxy.rules.context import Client
from amqproxy.sockets.transport import SocketTransport
from amqproxy.taps.topology.client_requests import ClientRequests

_PLACES = (CLIENT, SERVER)

AnyPackedLeg = PackedLeg | AMQP010PackedLeg
AnySessionMeter = SessionMeter | AMQP010SessionMeter | None


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    """What was known of the client before its first frame, and both legs."""

    address: str
    port: int
    listener: str
    upstream: str
    legs: tuple[AnyPackedLeg, AnyPackedLeg]


_decode = msgspec.msgpack.Decoder(_Packed).decode


class ParkedSession:
    """A session whose connection a pump has; `handover` is how."""

    __slots__ = ("_blocked_since", "_numberings", "_packed", "_requests", "_sockets", "_viewed", "handover", "metered")

    def __init__(
        self,
        handover: Handover,
        sockets: tuple[socket.socket, socket.socket],
        packed: bytes,
        metered: AnySessionMeter,
        numberings: tuple[CommandNumbering, CommandNumbering] | None,
        requests: ClientRequests | None,
        blocked_since: float | None,
    ) -> None:
        self.handover = handover
        self.metered = metered
        self._sockets = sockets
        self._packed = packed
        self._numberings = numberings
        self._requests = requests
        self._blocked_since = blocked_since
        self._viewed: SessionParts | None = None

    @classmethod
    def of(cls, parts: SessionParts, handover: Handover, holder: object, now: float) -> ParkedSession | None:
        """What is kept of these, which are not used any more then; None where they have to be kept themselves.

        The pump names `holder` where a peer is silent from `now` on; see `Pump.silent`.
        """
        client = parts.carrier.first_known
        legs = [parts.watched_legs[peer] for peer in _PLACES]
        ours, theirs = (packed_leg(leg) if isinstance(leg, Leg) else amqp010_packed_leg(leg) for leg in legs)
        if ours is None or theirs is None or client is None or parts.share.used:
            return None
        try:
            data = msgspec.msgpack.encode(
                _Packed(client.address, client.port, client.listener, client.upstream, (ours, theirs))
            )
        except ValueError:  # a text that UTF-8 cannot encode
            return None
        sockets = []
        for leg in legs:
            assert isinstance(leg.transport, SocketTransport)
            sockets.append(leg.transport.socket)
        patience = [float(SILENCE * each.heartbeat) for each in (ours, theirs)]
        heard = [leg.heard(now) for leg in legs]
        pumped = handover.pumped
        pumped.watch(holder, (patience[0], patience[1]), (heard[0], heard[1]))
        pumped.adopt(None)
        return cls(
            handover,
            (sockets[0], sockets[1]),
            data,
            parts.carrier.metered,
            None if parts.amqp010 is None else parts.amqp010.numberings,
            parts.observer.requests,
            parts.report.blocked_since,
        )

    def fail(self, services: SessionServices, number: int, name: str) -> None:
        """No session can be made of it any more: close both connections at once, and its account as far as possible."""
        for each in self._sockets:
            each.close()
        report = SessionReport(number, name, services.metrics, None, services.rule_log)
        with report.contained("session not counted"):
            packed = _decode(self._packed)
            report.go_on(len(packed.legs[0].channels), self._blocked_since, _client(packed, number))
            report.note_failure(FAILURE.code)
            report.close(trio.current_time())
        with report.contained("session not counted"):
            if self.metered is not None:
                self.metered.close()
            if self._requests is not None:
                self.view(services, number, name).observer.end()
        self._let_go()

    def view(self, services: SessionServices, number: int, name: str) -> SessionParts:
        """Parts to look at, as they were when they were made; those of one session at a time are there."""
        if self._viewed is None:
            if services.let_go_of_view is not None:
                services.let_go_of_view()
            self._viewed = self._new_parts(services, number, name)
            services.let_go_of_view = self._let_go
        return self._viewed

    def _let_go(self) -> None:
        if self._viewed is not None:
            viewed, self._viewed = self._viewed, None
            self.handover.pumped.adopt(None)
            viewed.let_go()

    def parts(self, services: SessionServices, number: int, name: str) -> SessionParts:
        """Parts with which the session goes on."""
        parts = self.view(services, number, name)
        self._viewed = services.let_go_of_view = None
        return parts

    def refresh(self, services: SessionServices) -> None:
        """Have the meter, and the next view, know what has passed so far."""
        if services.pumps is not None:
            services.pumps.read_journals()
        self._let_go()

    def _new_parts(self, services: SessionServices, number: int, name: str) -> SessionParts:
        """Parts like those, which know all that has passed; the transports are lent to the pump, while it has them."""
        packed = _decode(self._packed)
        client = _client(packed, number)
        transports = [SocketTransport(each) for each in self._sockets]
        parts = SessionParts(services, number, name, transports[0], client)
        parts.life.state = SessionState.RELAYING
        parts.connect(transports[1], services)
        if self._numberings is not None:
            parts.speak_amqp010(client, services)
        start_oks: dict[bytes, Any] = {}
        pumped = self.handover.pumped
        legs = [parts.watched_legs[peer] for peer in _PLACES]
        for place, (leg, each) in enumerate(zip(legs, packed.legs, strict=True)):
            _unpack(each, leg, start_oks)
            transports[place].lend()
            transports[place].received = each.received + pumped.received(place)
            transports[place].progress = each.progress + 1  # a peer that takes nothing has its time anew
            heard = pumped.heard(place)
            if heard is not None:
                leg.note_heard(heard)
        pumped.adopt((legs[0].reader, legs[1].reader), (packed.legs[0].frames, packed.legs[1].frames))
        pumped.show()
        if parts.amqp010 is not None:
            parts.amqp010.go_on(client, self.metered, self._numberings)
        elif isinstance(self.metered, SessionMeter):
            parts.traffic.metered = self.metered
        parts.observer.go_on_with(self._requests)
        parts.report.go_on(len(packed.legs[0].channels), self._blocked_since, parts.carrier.passage.shown_client)
        return parts


def _unpack(packed: AnyPackedLeg, leg: Leg | AMQP010Leg, start_oks: dict[bytes, Any]) -> None:
    """Have a new leg be as the packed one was."""
    if isinstance(packed, PackedLeg) and isinstance(leg, Leg):
        unpack_leg(packed, leg, start_oks)
    elif isinstance(packed, AMQP010PackedLeg) and isinstance(leg, AMQP010Leg):
        unpack_amqp010_leg(packed, leg, start_oks)


def _client(packed: _Packed, number: int) -> Client:
    """What was known of the client before its first frame."""
    return Client(
        session=number, address=packed.address, port=packed.port, listener=packed.listener, upstream=packed.upstream
    )
