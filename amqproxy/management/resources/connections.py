"""Connections of clients."""

from __future__ import annotations

from collections.abc import AsyncIterator

from amqproxy.configuration.values import split_address
from amqproxy.control import RequestError
from amqproxy.management.call import Call, Done, Entry
from amqproxy.management.failure import GONE, bad_request, not_authorised, not_found
from amqproxy.management.listing import Rows
from amqproxy.management.statistics.figures import Figures

UNKNOWN = (
    "peer_cert_issuer",
    "peer_cert_serial_number",
    "peer_cert_subject",
    "peer_cert_validity",
    "ssl_cipher",
    "ssl_hash",
    "ssl_key_exchange",
    "ssl_protocol",
)
"""Keys about TLS, which are null in lists and, as in RabbitMQ, "" in the row of one connection, where unknown."""


async def connections(call: Call) -> Rows:
    """Return the user's own connections; monitoring users see all."""

    async def rows() -> AsyncIterator[Entry]:
        figures = call.figures
        async for each in call.broker.objects("connections", call.values.get("vhost")):
            if _is_seen(call, each):
                yield connection_row(call, figures, each)

    return Rows(rows(), ("vhost", "name"), has_pages=True)


async def of_user(call: Call) -> Rows:
    """Return the connections of one user."""

    async def rows() -> AsyncIterator[Entry]:
        figures = call.figures
        async for each in call.broker.objects("connections"):
            if each["user"] == call.values["user"]:
                row = connection_row(call, figures, each)
                yield {name: row[name] for name in ("name", "node", "user", "vhost")}

    return Rows(rows(), ("vhost", "name"))


async def connection(call: Call) -> Entry:
    row = connection_row(call, call.figures, await found_connection(call))
    return row | {name: "" for name in UNKNOWN if row.get(name, "") is None}


async def found_connection(call: Call) -> Entry:
    """Return the entry of the path's connection; `Failure` if there is none, or the user may not see it."""
    found = await call.broker.first("connections", lambda each: each["connection"] == call.values["connection"])
    if found is None:
        raise not_found()
    if not _is_seen(call, found):
        raise not_authorised("User not authorised to access object")
    return found


def _is_seen(call: Call, entry: Entry) -> bool:
    return call.user.is_monitor or bool(entry["user"] == call.user.name)


def ends(name: str) -> Entry:
    """Return the addresses in a connection's name, with RabbitMQ's keys."""
    peer, _, own = name.partition(" -> ")
    peer_host, peer_port = _split(peer)
    host, port = _split(own)
    return {"peer_host": peer_host, "peer_port": peer_port, "host": host, "port": port}


def _split(address: str) -> tuple[str, int]:
    try:
        return split_address(address)
    except ValueError:  # a connection within the process has no address
        return address, 0


def connection_row(call: Call, figures: Figures, entry: Entry) -> Entry:
    """Return the row of a connection."""
    row: Entry = {
        "name": entry["connection"],
        "node": call.facts.node,
        "type": "network",
        "protocol": "AMQP 0-9-1" if entry["protocol"] == "0-9-1" else f"AMQP {entry['protocol']}",
        "state": "blocked" if entry["blocked"] else "running",
        "user": entry["user"],
        "user_who_performed_action": entry["user"],
        "vhost": entry["vhost"],
        "auth_mechanism": entry["auth_mechanism"],
        "connected_at": int(entry["connected_at"] * 1000),
        "client_properties": entry["client_properties"],
        "channels": entry["channels"],
        "channel_max": entry["channel_max"],
        "frame_max": entry["frame_max"],
        "timeout": entry["heartbeat"],
        "recv_oct": entry["received"],
        "send_oct": entry["sent"],
        "ssl": entry["tls"],
        **{name: None for name in UNKNOWN if name != "peer_cert_serial_number"},
        "peer_cert_subject": entry["certificate_name"] or None,
        **ends(entry["connection"]),
    }
    if entry["user_provided_name"]:
        row["user_provided_name"] = entry["user_provided_name"]
    if call.facts.is_4:
        row["peer_cert_serial_number"] = None
    return row | figures.of_connection(entry["connection"])


async def sessions(call: Call) -> Entry:
    """Refuse to list sessions: only connections of AMQP 1.0 have these, and this broker does not speak it."""
    await found_connection(call)
    raise bad_request("connection does not use AMQP 1.0")


async def close_connection(call: Call) -> Done:
    """Close a connection; the header X-Reason is the reply text."""
    entry = await found_connection(call)
    if not (call.user.is_administrator or entry["user"] == call.user.name):  # monitoring users only see it
        raise not_authorised("User not authorised to access object")
    await call.broker.ask("broker-close", session=entry["session"], text=call.reason)
    call.broker.forget()
    return Done()


async def close_of_user(call: Call) -> Done:
    """Close all connections of one user."""
    found = [each async for each in call.broker.objects("connections") if each["user"] == call.values["user"]]
    for each in found:
        try:
            await call.broker.ask("broker-close", session=each["session"], text=call.reason)
        except RequestError as error:
            if error.name not in GONE:
                raise
    call.broker.forget()
    return Done()
