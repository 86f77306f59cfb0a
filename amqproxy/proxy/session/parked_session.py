"""A session while a pump has its connection: some two KiB, in place of its tasks and parts.

`ParkedSession.of` extracts this data from the parts of a session, and `parts` rebuilds equivalent parts.
"""

from __future__ import annotations

import socket
from functools import cache
from typing import Any

import msgspec
import trio

from amqproxy.peer import CLIENT, SERVER, SILENCE
from amqproxy.proxy.session.ownership import Handover
from amqproxy.proxy.session.packed_leg import PackedLeg
from amqproxy.proxy.session.session_parts import SessionParts
from amqproxy.proxy.session.session_report import SessionEnd, SessionReport
from amqproxy.proxy.session.session_services import SessionServices
from amqproxy.proxy.session.session_state import SessionState
from amqproxy.proxy.session.traffic import Traffic
from amqproxy.proxy.upstreams.member import Member
from amqproxy.rules.context import Client
from amqproxy.sockets.transport import SocketTransport, reset
from amqproxy.taps.topology.client_requests import ClientRequests

MAX_PARKED_CHANNELS = 256
"""Open channels of a connection whose session is parked: to rebuild 10,000 of them would take one turn 130 ms."""

_PLACES = (CLIENT, SERVER)


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    """The client as known before its first frame, and both legs as encoded by their dialect."""

    address: str
    port: int
    listener: str
    upstream: str
    tls_subject: str
    sni: str
    identity: str
    legs: tuple[msgspec.Raw, msgspec.Raw]


_FACTS = _Packed.__struct_fields__[:-1]

_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(_Packed).decode


@cache
def _leg_decoder(packed_leg: type[PackedLeg]) -> msgspec.msgpack.Decoder[PackedLeg]:
    return msgspec.msgpack.Decoder(packed_leg)


class ParkedSession:
    """A session whose connection a pump has; `handover` names the pump and the connection."""

    __slots__ = (
        "_blocked_since",
        "_dialect",
        "_kept",
        "_packed",
        "_requests",
        "_sockets",
        "_viewed",
        "handover",
        "metered",
    )

    def __init__(
        self,
        handover: Handover,
        sockets: tuple[socket.socket, socket.socket],
        dialect: type[Traffic],
        packed: bytes,
        metered: Any,
        kept: object,
        requests: ClientRequests | None,
        blocked_since: float | None,
    ) -> None:
        self.handover = handover
        self.metered = metered
        self._sockets = sockets
        self._dialect = dialect
        self._packed = packed
        self._kept = kept
        self._requests = requests
        self._blocked_since = blocked_since
        self._viewed: SessionParts[Traffic] | None = None

    @classmethod
    def of(cls, parts: SessionParts[Traffic], handover: Handover, holder: object, now: float) -> ParkedSession | None:
        """Return the parked form of `parts`, which must not be used afterwards; `None` if the session cannot be parked.

        The pump names `holder` when a peer is silent, counted from `now`; see `Pump.silent`.
        """
        traffic = parts.traffic
        if traffic is None:
            return None
        client = traffic.first_known
        legs = [traffic.legs[peer] for peer in _PLACES]
        if any(len(leg.connection.channels) > MAX_PARKED_CHANNELS for leg in legs):
            return None
        ours, theirs = map(traffic.PACKED_LEG.of, legs)
        if ours is None or theirs is None or client is None or parts.share.used:
            return None
        try:
            packed = msgspec.Raw(_encode(ours)), msgspec.Raw(_encode(theirs))
            data = _encode(_Packed(**{name: getattr(client, name) for name in _FACTS}, legs=packed))
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
            type(traffic),
            data,
            traffic.metered,
            traffic.kept,
            traffic.requests,
            parts.report.blocked_since,
        )

    def end(
        self, services: SessionServices, number: int, name: str, end: SessionEnd, member: Member | None = None
    ) -> None:
        """Reset both connections and close the session's report, containing errors; the session cannot resume."""
        for each in self._sockets:
            reset(each)
        report = SessionReport(number, name, services.metrics, None, services.rule_log)
        report.member = member
        with report.contained("session not counted"):
            packed, (leg, _) = self._unpacked()
            report.go_on(leg.channel_count, self._blocked_since, _client(packed, number))
            report.finish(end)
            report.close(trio.current_time())
        with report.contained("session not counted"):
            if self.metered is not None:
                self.metered.close()
            if self._requests is not None:
                traffic = self.view(services, number, name).traffic
                assert traffic is not None
                traffic.end_observing()
        self._let_go()

    def view(self, services: SessionServices, number: int, name: str) -> SessionParts[Traffic]:
        """Return parts for inspection, as of their creation; only one parked session at a time has such parts."""
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

    def parts(self, services: SessionServices, number: int, name: str) -> SessionParts[Traffic]:
        """Return parts with which the session resumes."""
        parts = self.view(services, number, name)
        self._viewed = services.let_go_of_view = None
        return parts

    def refresh(self, services: SessionServices) -> None:
        """Update the meter with what the pump has relayed so far, and discard outdated parts."""
        if services.pumps is not None:
            services.pumps.read_journals()
        self._let_go()

    def _new_parts(self, services: SessionServices, number: int, name: str) -> SessionParts[Traffic]:
        """Rebuild the session's parts as of now; the transports are lent to the pump while it has the connection."""
        packed, places = self._unpacked()
        transports = [SocketTransport(each) for each in self._sockets]
        client = _client(packed, number)
        parts: SessionParts[Traffic] = SessionParts(services, number, name, transports[0], client)
        parts.life.state = SessionState.RELAYING
        parts.connect(transports[1])
        traffic = parts.speak(self._dialect, services)
        start_oks: dict[bytes, Any] = {}
        pumped = self.handover.pumped
        legs = [traffic.legs[peer] for peer in _PLACES]
        for place, (leg, each) in enumerate(zip(legs, places, strict=True)):
            each.restore(leg, start_oks)
            transports[place].lend()
            transports[place].received = each.received + pumped.received(place)
            transports[place].progress = each.progress + 1  # a peer that reads nothing gets a new time limit
            heard = pumped.heard(place)
            if heard is not None:
                leg.note_heard(heard)
        pumped.adopt((legs[0].reader, legs[1].reader), (places[0].frames, places[1].frames))
        pumped.show()
        traffic.go_on(client, self.metered, self._requests, self._kept)
        parts.report.go_on(places[0].channel_count, self._blocked_since, traffic.passage.shown_client)
        return parts

    def _unpacked(self) -> tuple[_Packed, tuple[PackedLeg, PackedLeg]]:
        packed = _decode(self._packed)
        decode = _leg_decoder(self._dialect.PACKED_LEG).decode
        ours, theirs = map(decode, packed.legs)
        return packed, (ours, theirs)


def _client(packed: _Packed, number: int) -> Client:
    """Return the client as known before its first frame."""
    return Client(session=number, **{name: getattr(packed, name) for name in _FACTS})
