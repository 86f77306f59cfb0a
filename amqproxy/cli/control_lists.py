"""What `amqproxy control` lists as tables: connections, channels, transactions and more, and what is counted."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import Parameter

from amqproxy.cli.control_connection import connected

if TYPE_CHECKING:
    from amqproxy.control.tables import Column

Json = Annotated[bool, Parameter(negative="")]


def connections(*, socket: Path | None = None, config: Path | None = None, json: Json = False) -> None:
    """Print the connections: who, since when, in which state, and how many bytes each side has sent.

    Parameters
    ----------
    socket
        The proxy's control socket.
    config
        The config file that names it.
    json
        One JSON object a line for each, instead of a table.
    """
    from amqproxy.control.tables import CONNECTIONS

    with connected(socket, config) as client:
        _print(client.ask("connections"), "connections", CONNECTIONS, json)


def channels(
    *, session: int | None = None, socket: Path | None = None, config: Path | None = None, json: Json = False
) -> None:
    """Print the open channels: mode, prefetch, consumers, what is unsettled, and how many messages each side has sent.

    Parameters
    ----------
    session
        Only those of this session.
    socket
        The proxy's control socket.
    config
        The config file that names it.
    json
        One JSON object a line for each, instead of a table.
    """
    from amqproxy.control.tables import CHANNELS

    with connected(socket, config) as client:
        _print(client.ask("channels", session=session), "channels", CHANNELS, json)


def consumers(
    *, session: int | None = None, socket: Path | None = None, config: Path | None = None, json: Json = False
) -> None:
    """Print the consumers: of which queue, on which channel, and with which prefetch.

    Parameters
    ----------
    session
        Only those of this session.
    socket
        The proxy's control socket.
    config
        The config file that names it.
    json
        One JSON object a line for each, instead of a table.
    """
    from amqproxy.control.tables import CONSUMERS

    with connected(socket, config) as client:
        _print(client.ask("consumers", session=session), "consumers", CONSUMERS, json)


def transactions(
    *, vhost: str | None = None, socket: Path | None = None, config: Path | None = None, json: Json = False
) -> None:
    """Print the branches of distributed transactions that the integrated broker has: their state, and what they hold.

    Parameters
    ----------
    vhost
        Only those of this virtual host.
    socket
        The control socket.
    config
        The config file that names it.
    json
        One JSON object a line for each, instead of a table.
    """
    from amqproxy.control.tables import TRANSACTIONS

    with connected(socket, config) as client:
        _print(client.ask("broker-transactions", vhost=vhost), "transactions", TRANSACTIONS, json)


def topology(
    *,
    vhost: str | None = None,
    deleted: Annotated[bool, Parameter(negative="")] = False,
    socket: Path | None = None,
    config: Path | None = None,
    json: Json = False,
) -> None:
    """Print the exchanges, queues and bindings that clients have made or used through the proxy.

    Of clients of AMQP 0-10, as far as messages are counted.

    Parameters
    ----------
    vhost
        Only those of this virtual host.
    deleted
        Also print those that were deleted.
    socket
        The proxy's control socket.
    config
        The config file that names it.
    json
        One JSON object a line for each, instead of a table.
    """
    from amqproxy.control.tables import TOPOLOGY

    with connected(socket, config) as client:
        response = client.ask("topology", vhost=vhost, deleted=deleted or None)
    _print(response, "topology", TOPOLOGY, json)
    if response.get("forgotten"):
        print(f"amqproxy: {response['forgotten']} were forgotten for lack of room", file=sys.stderr)


def stats(*, socket: Path | None = None, config: Path | None = None, json: Json = False) -> None:
    """Print all metrics that /metrics has, and how late the event loop is.

    Parameters
    ----------
    socket
        The proxy's control socket.
    config
        The config file that names it.
    json
        One JSON object a line: first the process, then each sample.
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
    _print(response, "metrics", METRICS, json)


def _print(response: dict[str, Any], name: str, columns: Iterable[Column], json: bool) -> None:
    """The entries of a response, and on standard error how many are not among them."""
    from amqproxy.control.tables import table

    entries = response[name]
    for line in (msgspec.json.encode(entry).decode() for entry in entries) if json else table(columns, entries):
        print(line)
    sys.stdout.flush()
    if response.get("left_out"):
        print(f"amqproxy: {response['left_out']} more are not shown", file=sys.stderr)


COMMANDS = (connections, channels, consumers, transactions, topology, stats)
"""The subcommands."""
