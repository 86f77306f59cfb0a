"""Connections that the shovels of a process open: limits per broker, and the TLS contexts that they share."""

from __future__ import annotations

import ssl
from pathlib import Path
from weakref import WeakValueDictionary

import trio

from amqproxy.configuration.tls_config import ClientTLS
from amqproxy.sockets.tls import client_context

OPENING = 16
"""Shovels that connect to one broker and declare there at the same time: thousands may start at once."""

MOST_CONTEXTS = 256

Stamps = tuple[tuple[int, int, int], ...]


class Openings:
    """Limits of the shovels that wait for one broker, so that one that hangs delays no shovel of another broker.

    A context takes some 40 ms to be made, mostly for the system's authorities: it is made again once a file has
    changed.
    """

    def __init__(self, most: int = OPENING) -> None:
        self._most = most
        self._limits: WeakValueDictionary[str, trio.CapacityLimiter] = WeakValueDictionary()
        self._contexts: dict[ClientTLS, tuple[Stamps, ssl.SSLContext]] = {}

    def limit(self, address: str) -> trio.CapacityLimiter:
        """Return the limit of a broker; the address of this one is empty."""
        found = self._limits.get(address)
        if found is None:
            found = self._limits[address] = trio.CapacityLimiter(self._most)
        return found

    def context(self, tls: ClientTLS) -> ssl.SSLContext:
        """Return the context of these settings; raise `ConfigError` if a file is wrong."""
        stamps = _stamps(tls)
        known = self._contexts.pop(tls, None)
        context = known[1] if known is not None and known[0] == stamps else client_context(tls)
        self._contexts[tls] = stamps, context
        if len(self._contexts) > MOST_CONTEXTS:
            del self._contexts[next(iter(self._contexts))]
        return context


def _stamps(tls: ClientTLS) -> Stamps:
    """Return the versions of the settings' files and of the system's authorities."""
    system = ssl.get_default_verify_paths()
    found = []
    for path in filter(None, (*tls.files, system.cafile, system.capath)):
        try:
            stat = Path(path).stat()
        except OSError:
            found.append((0, 0, 0))
        else:
            found.append((stat.st_mtime_ns, stat.st_ino, stat.st_size))
    return tuple(found)
