"""Running proxies of this user, found by the control sockets that their processes listen on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from amqproxy.control.control_client import ControlClient
from amqproxy.control.request_error import RequestError

_PROCESSES = Path("/proc")
_PROGRAM = b"amqproxy"
_PATIENCE = 5.0
"""Time limit for a proxy's answer in seconds, so that a stopped one delays the list no longer."""

_LISTENS = 0x10000
"""Flag of a listening socket in /proc/net/unix: __SO_ACCEPTCON."""


class RunningProxy(NamedTuple):
    """A proxy, or a broker, that answers at its control socket, and the addresses where clients connect."""

    socket: Path
    listen: tuple[str, ...]


def running_proxies(named: Path | None = None) -> list[RunningProxy]:
    """Return the proxies that answer: that at the socket `named`, and on Linux those of this user's processes."""
    found = {}
    for path in filter(None, [named and named.absolute(), *_sockets()]):
        with suppress(RequestError, OSError, ValueError), ControlClient(path, _PATIENCE) as client:
            found[path] = RunningProxy(path, tuple(map(str, client.ask("hello").get("listen", ()))))
    return [found[path] for path in sorted(found)]


def _sockets() -> Iterator[Path]:
    """Yield the Unix sockets that processes of amqproxy listen on; none without Linux's /proc."""
    for process in _PROCESSES.glob("[0-9]*"):
        with suppress(OSError):
            if process.stat().st_uid == os.getuid() and _PROGRAM in (process / "cmdline").read_bytes():
                yield from _sockets_of(process)


def _sockets_of(process: Path) -> Iterator[Path]:
    own = set()
    for each in (process / "fd").iterdir():
        with suppress(OSError):
            own.add(str(each.readlink()))
    directory = (process / "cwd").readlink()
    for line in (process / "net" / "unix").read_text().splitlines()[1:]:
        _, _, _, flags, _, _, inode, *path = line.split(maxsplit=7)
        if path and path[0][0] != "@" and int(flags, 16) & _LISTENS and f"socket:[{inode}]" in own:
            yield Path(directory, path[0])
