"""`amqproxy control upstreams…`: the members of upstreams, and what an operator may ask of them."""

from __future__ import annotations

import sys
from typing import Annotated, Any

from cyclopts import Parameter

from amqproxy.cli.control_connection import connected
from amqproxy.cli.control_lists import print_list
from amqproxy.cli.options import Json, Socket, SocketConfig

Member = Annotated[str, Parameter(help="Its address, as listed by `upstreams`.")]
MemberOf = Annotated[str | None, Parameter(help="The upstream that it is a member of, if several have it.")]


def upstreams(*, socket: Socket = None, config: SocketConfig = None, json: Json = False) -> None:
    """Print the members of the upstreams: state, weight, clients, failures, and the time to connect."""
    from amqproxy.control.tables import UPSTREAMS

    with connected(socket, config) as client:
        print_list(client.ask("upstreams"), "upstreams", UPSTREAMS, json)


def pools(*, socket: Socket = None, config: SocketConfig = None, json: Json = False) -> None:
    """Print the pools of connections that clients share: their connections, clients and channels."""
    from amqproxy.control.tables import POOLS

    with connected(socket, config) as client:
        print_list(client.ask("pools"), "pools", POOLS, json)


def upstreams_drain(
    member: Member,
    /,
    *,
    upstream: MemberOf = None,
    rate: float = 0.0,
    socket: Socket = None,
    config: SocketConfig = None,
) -> None:
    """Drain a member: it takes no new clients, for instance before its broker is restarted.

    Parameters
    ----------
    rate
        Number of its present clients per second that are told to reconnect; by default, they stay.
    """
    _change("upstreams-drain", socket, config, member=member, upstream=upstream, rate=rate)


def upstreams_eject(
    member: Member,
    /,
    *,
    upstream: MemberOf = None,
    seconds: float = 300.0,
    socket: Socket = None,
    config: SocketConfig = None,
) -> None:
    """Leave a member out for some time; its present clients stay.

    Parameters
    ----------
    seconds
        How long it takes no new clients, unless no other member can.
    """
    _change("upstreams-eject", socket, config, member=member, upstream=upstream, seconds=seconds)


def upstreams_restore(
    member: Member, /, *, upstream: MemberOf = None, socket: Socket = None, config: SocketConfig = None
) -> None:
    """End the drain or the ejection of a member: it takes clients again."""
    _change("upstreams-restore", socket, config, member=member, upstream=upstream)


def upstreams_weight(
    member: Member, weight: int, /, *, upstream: MemberOf = None, socket: Socket = None, config: SocketConfig = None
) -> None:
    """Set a member's weight, until the proxy ends or the config file has another one.

    Parameters
    ----------
    weight
        Its share of new clients, in proportion to the others' weights; 0 for none.
    """
    _change("upstreams-weight", socket, config, member=member, weight=weight, upstream=upstream)


def upstreams_rebalance(
    upstream: str, /, *, rate: float = 50.0, socket: Socket = None, config: SocketConfig = None
) -> None:
    """Tell clients of members that have more than their share to reconnect, for instance after a member has returned.

    Parameters
    ----------
    upstream
        The upstream's name.
    rate
        Number of clients per second.
    """
    with connected(socket, config) as client:
        answer = client.ask("upstreams-rebalance", upstream=upstream, rate=rate)
    print(f"{answer['surplus']} clients are more than their members' shares", file=sys.stderr)


def _change(request: str, socket: Socket, config: SocketConfig, **options: Any) -> None:
    """Send a request about a member, and print its state."""
    with connected(socket, config) as client:
        entry = client.ask(request, **options)["upstream"]
    print(f"{entry['member']}: {entry['state']}, weight {entry['weight']}", file=sys.stderr)


COMMANDS = (
    pools,
    upstreams,
    upstreams_drain,
    upstreams_eject,
    upstreams_restore,
    upstreams_weight,
    upstreams_rebalance,
)
"""The subcommands."""
