"""Tables of `amqproxy control`: connections, channels, consumers, transactions, topology and metrics."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from amqproxy.cli.control_connection import connected
from amqproxy.cli.options import Flag, Json, Socket, SocketConfig

if TYPE_CHECKING:
    from amqproxy.control.tables import Column


def connections(*, socket: Socket = None, config: SocketConfig = None, json: Json = False) -> None:
    """Print the connections: user, start, state, and the bytes sent by each side."""
    from amqproxy.control.tables import CONNECTIONS

    with connected(socket, config) as client:
        print_list(client.ask("connections"), "connections", CONNECTIONS, json)


def channels(
    *, session: int | None = None, socket: Socket = None, config: SocketConfig = None, json: Json = False
) -> None:
    """Print the open channels: mode, prefetch, consumers, unsettled deliveries, and the messages sent by each side.

    Parameters
    ----------
    session
        Only channels of this session.
    """
    from amqproxy.control.tables import CHANNELS

    with connected(socket, config) as client:
        print_list(client.ask("channels", session=session), "channels", CHANNELS, json)


def consumers(
    *, session: int | None = None, socket: Socket = None, config: SocketConfig = None, json: Json = False
) -> None:
    """Print the consumers: queue, channel and prefetch.

    Parameters
    ----------
    session
        Only consumers of this session.
    """
    from amqproxy.control.tables import CONSUMERS

    with connected(socket, config) as client:
        print_list(client.ask("consumers", session=session), "consumers", CONSUMERS, json)


def transactions(
    *, vhost: str | None = None, socket: Socket = None, config: SocketConfig = None, json: Json = False
) -> None:
    """Print the integrated broker's branches of distributed transactions: their state, and the work in them.

    Parameters
    ----------
    vhost
        Only branches in this virtual host.
    """
    from amqproxy.control.tables import TRANSACTIONS

    with connected(socket, config) as client:
        print_list(client.ask("broker-transactions", vhost=vhost), "transactions", TRANSACTIONS, json)


def topology(
    *,
    vhost: str | None = None,
    deleted: Flag = False,
    socket: Socket = None,
    config: SocketConfig = None,
    json: Json = False,
) -> None:
    """Print the exchanges, queues and bindings that clients have declared or used through the proxy.

    For clients of protocols other than AMQP 0-9-1, only the objects for which messages are counted.

    Parameters
    ----------
    vhost
        Only objects in this virtual host.
    deleted
        Also print deleted objects.
    """
    from amqproxy.control.tables import TOPOLOGY

    with connected(socket, config) as client:
        response = client.ask("topology", vhost=vhost, deleted=deleted or None)
    print_list(response, "topology", TOPOLOGY, json)
    if response.get("forgotten"):
        print(f"amqproxy: {response['forgotten']} were forgotten for lack of room", file=sys.stderr)


def stats(*, socket: Socket = None, config: SocketConfig = None, json: Flag = False) -> None:
    """Print all metrics of /metrics, and the delay of the event loop.

    Parameters
    ----------
    json
        Print one JSON object per line: first the process, then each sample.
    """
    from amqproxy.control.tables import METRICS, age_text, time_text

    with connected(socket, config) as client:
        response = client.ask("stats")
    process = response["stats"]
    if json:
        print(msgspec.json.encode(process).decode())
    else:
        lag = process["lag"]
        print(f"amqproxy {process['version']}, process {process['pid']}, up for {age_text(process['uptime'])}")
        print(f"late by {time_text(lag['now'])}, at most {time_text(lag['most'])} within a minute")
    print_list(response, "metrics", METRICS, json)


def print_list(response: dict[str, Any], name: str, columns: Iterable[Column], json: bool) -> None:
    """Print the entries of a response, and on standard error the number of omitted ones."""
    from amqproxy.control.tables import table

    entries = response[name]
    for line in (msgspec.json.encode(entry).decode() for entry in entries) if json else table(columns, entries):
        print(line)
    sys.stdout.flush()
    if response.get("left_out"):
        print(f"amqproxy: {response['left_out']} more are not shown", file=sys.stderr)


COMMANDS = (connections, channels, consumers, transactions, topology, stats)
"""The subcommands."""
