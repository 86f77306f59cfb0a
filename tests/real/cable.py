"""A TCP connection that can be disturbed: between the proxy and one broker."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Literal

Mode = Literal["pass", "stall", "cut", "slow", "refuse"]
Place = Callable[[], AbstractContextManager[None]]
"""Returns a block whose sockets are created in another network namespace."""

SLOW = 256
"""Bytes a second in each direction of a slow connection."""

PIECE = 64
"""Bytes that a slow connection carries at a time."""


class Cable:
    """Forwards what connects to `port` to another port of this machine.

    `mode` is `pass`; `stall`: connections are accepted, and nothing moves; `cut`: connections are reset; `slow`: they
    carry `SLOW` bytes a second; or `refuse`: they are reset, and none is accepted.
    """

    def __init__(
        self,
        target: int,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        listens_in: Place = nullcontext,
        connects_in: Place = nullcontext,
    ) -> None:
        """`host` is one of this machine's own addresses; its ends may be in different network namespaces."""
        self.mode: Mode = "pass"
        self._target = target
        self._ends: list[socket.socket] = []
        self._host = host
        self._listens_in, self._connects_in = listens_in, connects_in
        self._listener = self._listen(port)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def set(self, mode: Mode) -> None:
        """Disturb the connections that there are, and those to come."""
        self.mode = mode
        if mode in ("cut", "refuse"):
            for end in self._ends:
                _reset(end)
        if mode == "refuse":
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            self._listener.close()
        elif self._listener.fileno() < 0:
            self._listener = self._listen(self.port)
            threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        for end in self._ends:
            end.close()

    def _listen(self, port: int) -> socket.socket:
        with self._listens_in():
            return socket.create_server((self._host, port))

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                end, _ = self._listener.accept()
                self._ends.append(end)
                threading.Thread(target=self._connect, args=(end,), daemon=True).start()

    def _connect(self, end: socket.socket) -> None:
        if self.mode == "cut":
            _reset(end)
            return
        self._hold()
        try:
            with self._connects_in():
                other = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            _reset(end)
            return
        self._ends.append(other)
        threading.Thread(target=self._carry, args=(other, end), daemon=True).start()
        self._carry(end, other)

    def _hold(self) -> None:
        while self.mode == "stall":
            time.sleep(0.02)

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while True:
                self._hold()
                is_slow = self.mode == "slow"
                data = source.recv(PIECE if is_slow else 65536)
                self._hold()
                if is_slow:
                    time.sleep(len(data) / SLOW)
                if not data:
                    break
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


def _reset(end: socket.socket) -> None:
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.close()
