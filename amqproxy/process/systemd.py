"""Communication with systemd: inherited sockets, service states, and watchdog signals.

See sd_listen_fds(3) and sd_notify(3). Without systemd there are no sockets, and notifying does nothing.

No library does this for a process that must not block (November 2026): sdnotify, last released in 2017, and
systemd-watchdog, which needs Python 3.12, send on a blocking socket, so that a manager that does not read would stop
the relay; none of them takes sockets. systemd-python is only there as source that needs libsystemd's headers, and
cysystemd brings a libsystemd of its own, 2.4 MB. sd_notify(3) has an example without a library, as here.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import MutableMapping
from contextlib import suppress

import trio

from amqproxy.process.log import logger

FIRST = 3
"""Number of the first passed socket."""


class Systemd:
    """The service manager, from the environment, whose variables are then removed, since they are not for children.

    Sockets belong to their takers; the others are closed with the process.
    """

    def __init__(self, environment: MutableMapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        self._address = environment.pop("NOTIFY_SOCKET", "")
        self._sockets = _passed(environment)
        self._watchdog = _number(environment.pop("WATCHDOG_USEC", "")) / 1e6
        if environment.pop("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
            self._watchdog = 0.0

    @property
    def is_watching(self) -> bool:
        """Whether systemd expects watchdog signals."""
        return self._watchdog > 0

    def sockets(self, name: str) -> list[socket.socket]:
        """Return the sockets of this name, or the one of this number, that were not taken before.

        Raise `ValueError` if none was passed, or one does not listen for streams.
        """
        found = [number for number, each in self._sockets if name in (each, str(number))]
        if not found:
            raise ValueError(
                f"no socket {name} was passed: one comes from a .socket unit with FileDescriptorName={name}"
            )
        self._sockets = [(number, each) for number, each in self._sockets if number not in found]
        return [_listening(number) for number in found]

    def ready(self) -> None:
        """Report that the process listens or, after `reloading`, has read its config again."""
        self._notify("READY=1")

    def reloading(self) -> None:
        self._notify(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self, within: float) -> None:
        """Report a drain of at most `within` seconds, so that systemd does not kill the process before."""
        self._notify(f"STOPPING=1\nEXTEND_TIMEOUT_USEC={within * 1e6:.0f}")

    def status(self, text: str) -> None:
        """Set the status line of `systemctl status`."""
        self._notify(f"STATUS={text}")

    async def live(self) -> None:
        """Send watchdog signals from the main loop, twice as often as required, until cancelled."""
        while self.is_watching:
            self._notify("WATCHDOG=1")
            await trio.sleep(self._watchdog / 2)

    def _notify(self, state: str) -> None:
        """Send a state; if that fails, log a line at debug level."""
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sender:
                sender.sendto(state.encode(), address)
        except OSError as error:
            logger().debug("systemd not notified", reason=error.strerror, state=state.partition("=")[0])


def _passed(environment: MutableMapping[str, str]) -> list[tuple[int, str]]:
    """Return numbers and names of the sockets passed to this process."""
    count = _number(environment.pop("LISTEN_FDS", ""))
    names = environment.pop("LISTEN_FDNAMES", "").split(":")
    if environment.pop("LISTEN_PID", "") != str(os.getpid()):
        return []
    names += [""] * (count - len(names))
    found = list(zip(range(FIRST, FIRST + count), names, strict=False))
    for number, _ in found:
        with suppress(OSError):
            os.set_inheritable(number, False)
    return found


def _listening(number: int) -> socket.socket:
    try:
        passed = socket.socket(fileno=number)
    except OSError as error:
        raise ValueError(f"descriptor {number} is not a socket: {error.strerror}") from None
    if passed.type != socket.SOCK_STREAM or not passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        passed.detach()
        raise ValueError(f"socket {number} does not listen for streams: its unit needs ListenStream= and Accept=no")
    return passed


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0
