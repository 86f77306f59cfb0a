"""Sessions as the control socket lists them: connections, with what the client is, and what both have agreed."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.proxy.session.session import Session

MOST_TEXT = 1024
"""Characters that are shown of a text of a client's about itself."""

Entry = dict[str, Any]


def shown_text(value: Any) -> str:
    """A client property as text that UTF-8 can encode: bytes that it cannot are escaped."""
    return str(value)[:MOST_TEXT].encode("utf-8", "backslashreplace").decode()


def connection_entry(session: Session) -> Entry:
    """A connection. Bytes are those that each peer has sent; limits are as the client has agreed to them."""
    client, connection = session.shown, session.client.connection
    properties = client.properties
    upstream = session.legs.get(SERVER)
    start_ok = connection.client
    return {
        "session": session.number,
        "connection": session.name,
        "connected_at": session.connected_at,
        "state": str(session.state),
        "user": shown_text(client.user),
        "vhost": shown_text(client.vhost),
        "mechanism": "" if start_ok is None else shown_text(start_ok.mechanism),
        "tls": session.is_tls,
        "tls_subject": shown_text(client.tls_subject),
        "product": shown_text(properties.get("product", "")),
        "product_version": shown_text(properties.get("version", "")),
        "platform": shown_text(properties.get("platform", "")),
        "name": shown_text(properties.get("connection_name", "")),
        "upstream": shown_text(client.upstream),
        "channel_max": connection.channel_max,
        "frame_max": connection.frame_max,
        "heartbeat": connection.heartbeat,
        "blocked": connection.is_blocked,
        "channels": len(connection.channels),
        "consumers": sum(len(channel.consumers) for channel in connection.channels.values()),
        "bytes": {
            str(CLIENT): session.client.reader.offset,
            str(SERVER): 0 if upstream is None else upstream.reader.offset,
        },
    }
