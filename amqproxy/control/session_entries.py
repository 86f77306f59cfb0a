"""Sessions as the control socket lists them: their connections, channels and consumers, as the client sees them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amqproxy.amqp091.protocol_header import NAME
from amqproxy.control.client_name import client_name, shown_text
from amqproxy.control.dialects import SESSIONS, Entry
from amqproxy.peer import SERVER, Peer
from amqproxy.proxy.session.session import Session

_NOT_YET_OPEN: Entry = {
    "mechanism": "",
    "channel_max": 0,
    "frame_max": 0,
    "heartbeat": 0,
    "blocked": False,
    "channels": 0,
    "consumers": 0,
}


def connection_entry(session: Session) -> Entry:
    """Return a connection's entry. `bytes` are those that each peer has sent; limits are those of the client's leg."""
    session.refresh()
    client, traffic = session.shown, session.traffic
    properties = client.properties
    received = {peer: transport.received for peer, transport in session.transports.items()}
    entry: Entry = {
        "session": session.number,
        "connection": session.name,
        "connected_at": session.connected_at,
        "protocol": session.unread_protocol or NAME,
        "state": "paused" if session.is_paused else session.state,
        "user": shown_text(client.user),
        "vhost": shown_text(client.vhost),
        "relayed_by": _relayed_by(session),
        "tls": session.is_tls,
        "tls_subject": shown_text(client.tls_subject),
        "product": shown_text(properties.get("product", "")),
        "product_version": shown_text(properties.get("version", "")),
        "platform": shown_text(properties.get("platform", "")),
        "name": client_name(properties),
        "upstream": shown_text(client.upstream),
        "paused_channels": session.paused_channels,
        "bytes": {str(peer): received.get(peer, 0) for peer in Peer},
        **_NOT_YET_OPEN,
    }
    return entry if traffic is None else entry | SESSIONS[traffic.PROTOCOL].connection(traffic)


def _relayed_by(session: Session) -> str:
    if session.is_relayed_by_pump:
        return "pump"
    return "pool" if getattr(session.transports.get(SERVER), "is_shared", False) else "event loop"


def channel_entries(sessions: Iterable[Session]) -> Iterator[Entry]:
    """Yield the entries of the channels of sessions that still run when it is their turn."""
    for session in sessions:
        session.refresh()
        known, traffic = _connection_of(session), session.traffic
        if traffic is not None:
            for each in SESSIONS[traffic.PROTOCOL].channels(traffic):
                yield known | each


def consumer_entries(sessions: Iterable[Session]) -> Iterator[Entry]:
    """Yield the entries of the consumers of sessions that still run when it is their turn."""
    for session in sessions:
        known, traffic = _connection_of(session), session.traffic
        if traffic is not None:
            for each in SESSIONS[traffic.PROTOCOL].consumers(traffic):
                yield known | each


def _connection_of(session: Session) -> Entry:
    client = session.shown
    return {
        "session": session.number,
        "connection": session.name,
        "user": shown_text(client.user),
        "vhost": shown_text(client.vhost),
        "name": client_name(client.properties),
        "upstream": shown_text(client.upstream),
    }
