"""Free loopback ports."""

import os
import random
import socket
from pathlib import Path

_LOWEST = 10_240
"""The first port that is given out; those below have their uses."""


def _first_ephemeral() -> int:
    """The first port of those that the system takes for outgoing connections."""
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        return 32_768


class _Ports:
    """Gives out free ports in turn, each once in a round.

    None that the system gives to a connection: until whoever asked listens on it, tests that run at the same time make
    hundreds of those. They begin at a random place, so that processes of tests that run at the same time have others.
    """

    def __init__(self) -> None:
        self._pid = 0
        self._next = 0

    def take(self) -> int:
        """A port that was free a moment ago."""
        end = max(_first_ephemeral(), _LOWEST + 1000)
        if self._pid != os.getpid():
            self._pid, self._next = os.getpid(), random.SystemRandom().randrange(_LOWEST, end)
        for _ in range(_LOWEST, end):
            port = self._next
            self._next = port + 1 if port + 1 < end else _LOWEST
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
                return port
        raise OSError("no port is free")


free_port = _Ports().take
"""A port that was free a moment ago, and that no connection gets from the system."""
