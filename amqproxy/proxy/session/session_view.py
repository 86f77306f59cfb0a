"""Read access to a session, served or parked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trio

from amqproxy.configuration.config import Limits
from amqproxy.peer import CLIENT, Peer
from amqproxy.proxy.leg import Leg
from amqproxy.proxy.session.closing import Closing
from amqproxy.proxy.session.ownership import Owner, Ownership
from amqproxy.proxy.session.parked_session import ParkedSession
from amqproxy.proxy.session.session_parts import SessionParts
from amqproxy.proxy.session.session_report import SessionReport
from amqproxy.proxy.session.session_services import SessionServices
from amqproxy.proxy.session.session_state import SessionLife, SessionState
from amqproxy.proxy.session.session_tasks import SessionTasks
from amqproxy.proxy.session.traffic import Traffic
from amqproxy.rules.context import Client
from amqproxy.sockets.transport import Transport
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.topology.client_requests import ChannelView


class SessionView:
    """The readable properties of a session, identified by `number` and `name`.

    The parts of a parked session are rebuilt temporarily for each inspection.
    """

    __slots__ = ("_kept_parts", "_nursery", "_parked", "_services", "name", "number")

    def __init__(self, services: SessionServices, number: int, name: str) -> None:
        self.number = number
        self.name = name
        self._services = services
        self._kept_parts: SessionParts[Traffic] | None = None
        self._parked: ParkedSession | None = None
        self._nursery: SessionTasks | None = None

    @property
    def _parts(self) -> SessionParts[Traffic]:
        if self._kept_parts is not None:
            return self._kept_parts
        assert self._parked is not None
        return self._parked.view(self._services, self.number, self.name)

    @property
    def legs(self) -> Mapping[Peer, Leg[Any]]:
        """Both legs, once the upstream is connected; empty for a protocol that is not decoded."""
        return self._parts.legs

    @property
    def traffic(self) -> Traffic | None:
        """The traffic, in the client's protocol; `None` before the upstream is connected or if it is not decoded."""
        return self._parts.traffic

    @property
    def _report(self) -> SessionReport:
        return self._parts.report

    @property
    def _closing(self) -> Closing:
        return self._parts.closing

    @property
    def _life(self) -> SessionLife:
        return self._parts.life

    @property
    def _scope(self) -> trio.CancelScope:
        return self._parts.scope

    @property
    def _limits(self) -> Limits:
        return self._services.limits

    @property
    def _metrics(self) -> Metrics:
        return self._services.metrics

    @property
    def phase(self) -> SessionState:
        """The state of the session."""
        return SessionState.RELAYING if self.is_parked else self._life.state

    @property
    def channel_views(self) -> Mapping[int, ChannelView]:
        """Requests of the client by channel; channels without any may be left out."""
        return {} if self.traffic is None else self.traffic.channel_views

    @property
    def is_tls(self) -> bool:
        """Whether the client's connection is encrypted."""
        return self._report.is_tls

    @property
    def client(self) -> Leg[Any]:
        """The client's leg; `KeyError` before the upstream is connected."""
        return self.legs[CLIENT]

    @property
    def transports(self) -> Mapping[Peer, Transport]:
        """The transport to the client, and to the upstream once it is connected."""
        return self._parts.current_transports

    @property
    def client_transport(self) -> Transport:
        """The transport to the client."""
        return self.transports[CLIENT]

    @property
    def interceptor(self) -> Any:
        """The interceptor, which has the delayed and held commands; `None` without rules."""
        if self.is_parked:  # no command waits, and rebuilding the parts of all sessions would take long
            return None
        return None if self.traffic is None else self.traffic.interceptor

    @property
    def known(self) -> Client:
        """The client as known so far."""
        return self._parts.known if self.traffic is None else self.traffic.passage.client

    @property
    def shown(self) -> Client:
        """The client as logs and operators may see it, redacted."""
        return self._parts.known if self.traffic is None else self.traffic.passage.shown_client

    @property
    def state(self) -> str:
        """The state of the client's connection, or of the session before the upstream is connected."""
        return str(self.phase if self.traffic is None else self.client.connection.state)

    # --- ownership by a pump

    @property
    def is_parked(self) -> bool:
        """Whether a pump has the connection, and the session is reduced to its parked form."""
        return self._parked is not None

    @property
    def _ownership(self) -> Ownership | None:
        return None if self.traffic is None else self.traffic.ownership

    @property
    def owner(self) -> Owner:
        """The owner of both sockets: the relays, or a pump."""
        if self._parked is not None:
            return Owner.PUMP
        return Owner.RELAYS if self._ownership is None else self._ownership.owner

    @property
    def is_relayed_by_pump(self) -> bool:
        """Whether a pump that relays more than heartbeats has the connection."""
        pumps = self._services.pumps
        return self.owner is Owner.PUMP and pumps is not None and not pumps.is_idle_only

    # --- operator actions

    @property
    def is_open(self) -> bool:
        """Whether both peers have finished the handshake, and neither is closing the connection."""
        if self.is_parked:
            return True
        is_relaying = self.phase is SessionState.RELAYING and self._nursery is not None
        return is_relaying and (self.traffic is None or self.traffic.is_open)

    @property
    def is_paused(self) -> bool:
        """Whether reading from the client is paused."""
        return not self.is_parked and self.traffic is not None and self.traffic.is_paused

    @property
    def paused_channels(self) -> list[int]:
        """Numbers of the channels on which the client's commands are queued by `pause_channel`."""
        return [] if self.is_parked or self.traffic is None else self.traffic.paused_channels

    def has_open_channel(self, number: int) -> bool:
        """Whether this channel is open on both legs."""
        return self.traffic is not None and self.traffic.has_open_channel(number)
