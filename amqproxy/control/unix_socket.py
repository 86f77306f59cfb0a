"""The Unix socket of the control service: accessible to its owner only, and removed at the end."""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from amqproxy.process.supervision import contained

BACKLOG = 64
"""Listen backlog, in clients."""

PATH_SIZE = 107
"""Size limit of a Unix socket's path, in bytes."""


class SocketUnavailable(Exception):
    """The socket cannot be opened; the text gives the reason."""


@contextmanager
def opened(path: Path) -> Iterator[socket.socket]:
    """Listen at `path`, accessible to the owner only; remove the socket at the end.

    A stale socket is replaced. `SocketUnavailable` if the socket cannot be opened.
    """
    with socket.socket(socket.AF_UNIX) as listening:
        _bind(listening, path)
        mark = _mark(path)
        try:
            yield listening
        finally:
            with contained("control socket not removed", path=str(path)):
                if mark is not None and _mark(path) == mark:
                    path.unlink(missing_ok=True)


def _bind(listening: socket.socket, path: Path) -> None:
    if len(os.fsencode(path)) > PATH_SIZE:
        raise SocketUnavailable(f"control socket {path}: the name of a Unix socket has {PATH_SIZE} bytes at most")
    is_stale = _is_stale(path)
    before = os.umask(0o177)
    try:
        if is_stale:
            path.unlink(missing_ok=True)
        listening.bind(os.fspath(path))
        listening.listen(BACKLOG)
    except OSError as error:
        raise SocketUnavailable(f"control socket {path}: {error.strerror or error}") from None
    finally:
        os.umask(before)
    listening.setblocking(False)


def _is_stale(path: Path) -> bool:
    """Whether `path` is a stale socket. `SocketUnavailable` if it is in use, or is not a socket."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    except OSError as error:
        raise SocketUnavailable(f"control socket {path}: {error.strerror or error}") from None
    if not stat.S_ISSOCK(mode):
        raise SocketUnavailable(f"control socket {path}: there is a file of that name, which is no socket")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            return True
        except OSError as error:
            if error.errno != errno.EAGAIN:  # EAGAIN: the listener's backlog is full
                raise SocketUnavailable(f"control socket {path}: {error.strerror or error}") from None
    raise SocketUnavailable(f"control socket {path}: another amqproxy listens there")


def _mark(path: Path) -> tuple[int, int] | None:
    """Return device and inode of the socket file, to detect that another process replaced it; None without one."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
