"""The parts of a session while it is served, which a parked session does without."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

import trio

from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.leg import Leg
from amqproxy.proxy.memory_budget import MemoryShare
from amqproxy.proxy.session.closing import Closing
from amqproxy.proxy.session.session_report import SessionReport
from amqproxy.proxy.session.session_services import SessionServices
from amqproxy.proxy.session.session_state import SessionLife
from amqproxy.rules.context import Client
from amqproxy.sockets.transport import Transport
from amqproxy.taps.tap import Tap

_NO_LEGS: Mapping[Peer, Leg[Any]] = {}


class OwnedTraffic(Protocol):
    """The traffic as the other parts of its session see it; `traffic` documents it, and imports this module."""

    @property
    def legs(self) -> Mapping[Peer, Leg[Any]]: ...

    def let_go(self) -> None: ...


T = TypeVar("T", bound=OwnedTraffic)


class SessionParts(Generic[T]):
    """The parts of session `number`, whose client is at `transport`.

    `transports` includes the upstream's once it is dialled, and is empty once there are legs. `known` is the client as
    known before its first frame; `traffic` relays in the client's protocol, once the upstream is connected. `scope` is
    that of the task that runs the session.
    """

    __slots__ = ("closing", "known", "life", "report", "scope", "share", "traffic", "transports")

    def __init__(
        self,
        services: SessionServices,
        number: int,
        name: str,
        transport: Transport,
        client: Client,
        tap: Tap | None = None,
    ) -> None:
        self.transports: dict[Peer, Transport] = {CLIENT: transport}
        self.known = client
        self.report = SessionReport(
            number, name, services.metrics, tap, services.rule_log, is_tls=transport.tls is not None
        )
        self.closing = Closing(self.transports, self.report)
        self.share = MemoryShare(services.memory)
        self.life = SessionLife()
        self.scope = trio.CancelScope()
        self.traffic: T | None = None

    @property
    def legs(self) -> Mapping[Peer, Leg[Any]]:
        """Both legs, once the upstream is connected and the protocol is known."""
        return _NO_LEGS if self.traffic is None else self.traffic.legs

    @property
    def current_transports(self) -> Mapping[Peer, Transport]:
        """The transports, including fault wrappers that rules have put around them."""
        return {peer: leg.transport for peer, leg in self.legs.items()} or self.transports

    def connect(self, transport: Transport) -> None:
        """Set the transport to the upstream."""
        self.transports[SERVER] = self.report.upstream = transport

    def speak(self, dialect: Callable[[SessionParts[Any], SessionServices], T], services: SessionServices) -> T:
        """Create the traffic for the client's protocol, after the upstream is connected."""
        traffic = self.traffic = dialect(self, services)
        self.closing.legs = traffic.legs
        self.transports.clear()  # the legs have them, and replace one that only stands in for the upstream's
        return traffic

    def let_go(self) -> None:
        """Break the reference cycles between parts that are not used any more, so that they are freed at once."""
        self.share.clear()
        if self.traffic is not None:
            self.traffic.let_go()
