"""`amqproxy control switches…`: switches of clients and messages between upstreams."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from amqproxy.cli.control_connection import connected
from amqproxy.cli.control_lists import print_list
from amqproxy.cli.failure import MISUSED, Failure
from amqproxy.cli.options import Flag, Json, Socket, SocketConfig

MAX_DEFINITIONS = 256 * 1024 * 1024
"""Largest file of definitions in bytes."""

Switch = Annotated[str, Parameter(help="Its name, as listed by `switches`.")]


def switches(*, socket: Socket = None, config: SocketConfig = None, json: Json = False) -> None:
    """Print the switches between upstreams: where each is, and what is still on its way."""
    from amqproxy.control.tables import SWITCHES

    with connected(socket, config) as client:
        print_list(client.ask("switches"), "switches", SWITCHES, json)


def switches_queues(
    switch: Switch, /, *, socket: Socket = None, config: SocketConfig = None, json: Json = False
) -> None:
    """Print the queues of a switch, with the messages moved and left in the latest move."""
    from amqproxy.control.tables import SWITCH_QUEUES

    with connected(socket, config) as client:
        print_list(client.ask("switches-queues", switch=switch), "queues", SWITCH_QUEUES, json)


def switches_compare(
    switch: Switch,
    /,
    *,
    definitions: tuple[Path, Path] | None = None,
    socket: Socket = None,
    config: SocketConfig = None,
    json: Json = False,
) -> None:
    """Compare the queues of a switch at its source and its target: whether they exist, their messages and consumers.

    Exit code 1 if definitions differ.

    Parameters
    ----------
    definitions
        Exports of the definitions of the source and of the target (rabbitmqctl export_definitions), to compare, too.
    """
    from amqproxy.control.tables import SWITCH_DEPTHS
    from amqproxy.rabbitmq.definitions_difference import differences

    found = [] if definitions is None else list(differences(*(_definitions(each) for each in definitions)))
    with connected(socket, config) as client:
        print_list(client.ask("switches-compare", switch=switch), "queues", SWITCH_DEPTHS, json)
    for each in found:
        print(each)
    if found:
        sys.stdout.flush()
        raise Failure(f"control switches-compare: {len(found)} differences between the definitions")


def switches_begin(
    source: str,
    target: str,
    /,
    *,
    name: str | None = None,
    vhost: str | None = None,
    when: str | None = None,
    definitions: Path | None = None,
    queue: tuple[str, ...] = (),
    strict: Flag = False,
    rate: float = 50.0,
    socket: Socket = None,
    config: SocketConfig = None,
) -> None:
    """Switch clients and their waiting messages from one upstream to another.

    New clients reach the target at once, present ones are told to reconnect. Then the messages of the source's queues
    are moved to the queues of the same names: those in the definitions, and those that clients of the proxy have
    declared.

    Parameters
    ----------
    source
        The upstream to which clients are routed now.
    target
        The upstream that takes them.
    name
        A name for the switch; by default, SOURCE-TARGET.
    vhost
        Only clients of this virtual host, and its queues.
    when
        Only clients for which this CEL expression holds, as in a route: no queue is moved that is not named.
    definitions
        An export of the source's definitions (rabbitmqctl export_definitions), which names its queues.
    queue
        A queue to move, instead of all; with a virtual host in front: --queue /:orders --queue shop:orders.
    strict
        Keep the order of each queue: publishes wait until the source's queues are empty.
    rate
        Number of clients per second that are told to reconnect.
    """
    chosen = [_queue(each) for each in queue]
    if definitions is not None:
        chosen += [each for each in _defined(definitions, vhost or "/") if vhost in (None, each["vhost"])]
    with connected(socket, config) as client:
        answer = client.ask(
            "switches-begin",
            source=source,
            target=target,
            switch=name,
            vhost=vhost,
            when=when,
            strict=strict,
            rate=rate,
            queues=chosen,
            finds_queues=not queue and when is None,
        )
    _print_state(answer)


def switches_back(switch: Switch, /, *, socket: Socket = None, config: SocketConfig = None) -> None:
    """Lead the clients and messages of a switch back to its source, also in the middle of a move."""
    _change("switches-back", switch, socket, config)


def switches_forth(switch: Switch, /, *, socket: Socket = None, config: SocketConfig = None) -> None:
    """Lead the clients and messages of a switch to its target again."""
    _change("switches-forth", switch, socket, config)


def switches_settle(switch: Switch, /, *, socket: Socket = None, config: SocketConfig = None) -> None:
    """End the move of messages: those that are not moved yet stay where they are."""
    _change("switches-settle", switch, socket, config)


def switches_forget(switch: Switch, /, *, socket: Socket = None, config: SocketConfig = None) -> None:
    """Forget a settled switch: afterwards the routes of the config file decide, so change them before."""
    _change("switches-forget", switch, socket, config)


def _change(request: str, switch: str, socket: Socket, config: SocketConfig) -> None:
    with connected(socket, config) as client:
        _print_state(client.ask(request, switch=switch))


def _print_state(answer: dict[str, Any]) -> None:
    switch = answer["switch"]
    print(f"{switch['switch']}: {switch['state']}, {switch['clients']} clients to move", file=sys.stderr)


def _queue(text: str) -> dict[str, str]:
    """Parse VHOST:NAME, or the name of a queue in the virtual host /."""
    vhost, colon, name = text.partition(":")
    return {"vhost": vhost, "name": name} if colon else {"vhost": "/", "name": text}


def _defined(path: Path, vhost: str) -> Iterator[dict[str, str]]:
    """Yield the queues of an export of definitions; that of one virtual host does not name it."""
    try:
        for each in _definitions(path)["queues"]:
            arguments = each.get("arguments") or {}
            kind = str(each.get("type") or arguments.get("x-queue-type", ""))
            yield {"vhost": str(each.get("vhost", vhost)), "name": str(each["name"]), "type": kind}
    except (AttributeError, KeyError, TypeError):
        raise Failure(f"control switches: {path} is not an export of definitions", MISUSED) from None


def _definitions(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(MAX_DEFINITIONS), type=dict[str, Any])
    except OSError as error:
        raise Failure(f"control switches: {path}: {error.strerror}", MISUSED) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Failure(f"control switches: {path} is not an export of definitions", MISUSED) from None


COMMANDS = (
    switches,
    switches_begin,
    switches_back,
    switches_forth,
    switches_settle,
    switches_forget,
    switches_queues,
    switches_compare,
)
"""The subcommands."""
