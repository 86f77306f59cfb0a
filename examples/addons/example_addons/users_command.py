"""A command: `amqproxy users --socket amqproxy.sock` counts the connections and channels of each user.

Its parameters become arguments and options as cyclopts does it, like those of all commands. What it raises ends it with
one line; a `RequestError` of the control client says what is wrong already.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from amqproxy.control import ControlClient


def users(*, socket: Path) -> None:
    """Count connections and channels by user.

    Parameters
    ----------
    socket
        The proxy's control socket.
    """
    connections: Counter[str] = Counter()
    channels: Counter[str] = Counter()
    with ControlClient(socket) as proxy:
        for each in proxy.ask("connections")["connections"]:
            user = each.get("user") or "(not logged in)"
            connections[user] += 1
            channels[user] += each["channels"]
    for user, count in connections.most_common():
        print(f"{user}: {count} connections, {channels[user]} channels")
