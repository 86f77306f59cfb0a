"""What is kept of a session while a pump has its connection: some two KiB, in place of its tasks and parts.

`ParkedSession.of` takes what is needed from the parts of a session, and `parts` makes others like them.
"""

from __future__ import annotations

import socket

import msgspec
import trio

from amqproxy.amqp091.connection import SILENCE
from amqproxy.amqp091.methods import ConnectionStartOk
from amqproxy.amqp091.transitions import CLIENT, SERVER
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


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    """What was known of the client before its first frame, and both legs."""

    address: str
    port: int
    listener: str
    upstream: str
    legs: tuple[PackedLeg, PackedLeg]


_decode = msgspec.msgpack.Decoder(_Packed).decode


class ParkedSession:
    """A session whose connection a pump has; `handover` is how."""

    __slots__ = ("_blocked_since", "_packed", "_requests", "_sockets", "_viewed", "handover", "metered")

    def __init__(
        self,
        handover: Handover,
        sockets: tuple[socket.socket, socket.socket],
        packed: bytes,
        metered: SessionMeter | None,
        requests: ClientRequests | None,
        blocked_since: float | None,
    ) -> None:
        self.handover = handover
        self.metered = metered
        self._sockets = sockets
        self._packed = packed
        self._requests = requests
        self._blocked_since = blocked_since
        self._viewed: SessionParts | None = None

    @classmethod
    def of(cls, parts: SessionParts, handover: Handover, holder: object, now: float) -> ParkedSession | None:
        """What is kept of these, which are not used any more then; None where they have to be kept themselves.

        The pump names `holder` where a peer is silent from `now` on; see `Pump.silent`.
        """
        client = parts.traffic.first_known
        transports = [parts.legs[peer].transport for peer in _PLACES]
        packed = [packed_leg(parts.legs[peer]) for peer in _PLACES]
        ours, theirs = packed
        if ours is None or theirs is None or client is None or parts.share.used:
            return None
        try:
            data = msgspec.msgpack.encode(
                _Packed(client.address, client.port, client.listener, client.upstream, (ours, theirs))
            )
        except ValueError:  # a text that UTF-8 cannot encode
            return None
        sockets = []
        for transport in transports:
            assert isinstance(transport, SocketTransport)
            sockets.append(transport.socket)
        patience = [float(SILENCE * each.heartbeat) for each in (ours, theirs)]
        heard = [parts.legs[peer].heard(now) for peer in _PLACES]
        pumped = handover.pumped
        pumped.watch(holder, (patience[0], patience[1]), (heard[0], heard[1]))
        pumped.adopt(None)
        return cls(
            handover,
            (sockets[0], sockets[1]),
            data,
            parts.traffic.metered,
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
        start_oks: dict[bytes, ConnectionStartOk] = {}
        pumped = self.handover.pumped
        legs = [parts.legs[peer] for peer in _PLACES]
        for place, (leg, each) in enumerate(zip(legs, packed.legs, strict=True)):
            unpack_leg(each, leg, start_oks)
            transports[place].lend()
            transports[place].received = each.received + pumped.received(place)
            transports[place].progress = each.progress + 1  # a peer that takes nothing has its time anew
            heard = pumped.heard(place)
            if heard is not None:
                leg.note_heard(heard)
        pumped.adopt((legs[0].reader, legs[1].reader), (packed.legs[0].frames, packed.legs[1].frames))
        pumped.show()
        parts.traffic.metered = self.metered
        parts.observer.go_on_with(self._requests)
        channels = len(legs[0].connection.channels)
        parts.report.go_on(channels, self._blocked_since, parts.traffic.passage.shown_client)
        return parts


def _client(packed: _Packed, number: int) -> Client:
    """What was known of the client before its first frame."""
    return Client(
        session=number, address=packed.address, port=packed.port, listener=packed.listener, upstream=packed.upstream
    )
