"""Entries of the integrated broker's 0-10 clients, for the control socket: with the keys of 0-9-1.

A 0-10 session is listed as a channel, and a subscription as a consumer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amqproxy.broker.amqp010.connection import Amqp010Connection
from amqproxy.broker.amqp010.session import BrokerSession
from amqproxy.broker.amqp010.transaction_branch import TransactionBranch
from amqproxy.broker.server.served_connection import ServedConnection
from amqproxy.control.client_name import shown_text
from amqproxy.peer import CLIENT, SERVER, Peer

Entry = dict[str, Any]


def state(connection: Amqp010Connection) -> str:
    """Return the state of a connection: "opening", "open" or "closed"."""
    if connection.is_over:
        return "closed"
    return "opening" if connection.vhost is None else "open"


def mechanism(connection: Amqp010Connection) -> str:
    """Return the SASL mechanism: the broker does not keep it."""
    return ""


def limits(connection: Amqp010Connection) -> Entry:
    """Return the negotiated limits of a connection."""
    return {
        "channel_max": connection.channel_max,
        "frame_max": connection.frame_max,
        "heartbeat": connection.liveness.heartbeat,
    }


def held(connection: Amqp010Connection) -> Entry:
    """Return the numbers of a connection's subscriptions, unsettled deliveries and exclusive queues."""
    sessions = list(connection.channels.values())
    return {
        "consumers": sum(len(session.deliveries.subscriptions) for session in sessions),
        "unacked": sum(len(session.deliveries.unacked) for session in sessions),
        "exclusive_queues": sum(len(session.exclusive_queues) for session in sessions),
    }


def channels(served: ServedConnection, connection: Amqp010Connection) -> Iterator[Entry]:
    """Yield the entries of the sessions that are attached to channels."""
    for number, session in list(connection.channels.items()):
        yield _session_entry(served, number, session)


def consumers(connection: Amqp010Connection) -> Iterator[Entry]:
    """Yield the entries of the subscriptions of attached sessions."""
    for number, session in list(connection.channels.items()):
        for destination, subscription in list(session.deliveries.subscriptions.items()):
            yield {
                "channel": number,
                "consumer_tag": shown_text(destination),
                "queue": shown_text(subscription.queue.name),
                "no_ack": not subscription.accepts_explicitly,
                "exclusive": subscription.consumer is not None and subscription.consumer.exclusive,
                "prefetch": None,
                "arguments": None,
            }


def counts(connection: Amqp010Connection) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the channel number and the message counts of each attached session."""
    for number, session in list(connection.channels.items()):
        yield number, session.publisher.counts.plus(session.deliveries.counts)


def branch_entry(branch: TransactionBranch) -> Entry:
    """Return the entry of a branch of a distributed transaction; its ids are in hexadecimal digits."""
    xid, unit = branch.xid, branch.unit
    return {
        "vhost": branch.vhost.name,
        "format": xid.format,
        "global_id": (xid.global_id or b"").hex(),
        "branch_id": (xid.branch_id or b"").hex(),
        "state": branch.state.name.lower(),
        "timeout": branch.timeout,
        "sessions": len(branch.sessions),
        "published": unit.published,
        "accepted": unit.accepted,
        "bytes": unit.bytes_in_memory,
    }


def _session_entry(served: ServedConnection, number: int, session: BrokerSession) -> Entry:
    tap = served.tap
    meter = None if tap is None or tap.meter is None else tap.meter.channel(number)
    return {
        "channel": number,
        "state": "open",
        "mode": "dtx" if session.is_distributed else "normal" if session.transaction is None else "tx",
        "prefetch": 0,
        "global_prefetch": 0,
        "consumers": len(session.deliveries.subscriptions),
        "flow": {str(peer): True for peer in Peer},
        "messages": {
            str(CLIENT): 0 if meter is None else meter.published,
            str(SERVER): 0 if meter is None else meter.delivered,
        },
        "open_content": dict.fromkeys(map(str, Peer)),
        "unconfirmed": None if meter is None else meter.unconfirmed,
        "unacked": len(session.deliveries.unacked),
        "session_name": shown_text(session.name),
    }
