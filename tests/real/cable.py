"""A TCP connection that can be disturbed: between the proxy and one broker."""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import suppress
from typing import Literal

Mode = Literal["pass", "stall", "cut"]


class Cable:
    """Forwards what connects to `port` to another port of this machine.

    `mode` is `pass`; `stall`: connections are accepted, and nothing moves; or `cut`: connections are reset.
    """

    def __init__(self, target: int) -> None:
        self.mode: Mode = "pass"
        self._target = target
        self._ends: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def set(self, mode: Mode) -> None:
        """Disturb the connections that there are, and those to come."""
        self.mode = mode
        if mode == "cut":
            for end in self._ends:
                _reset(end)

    def close(self) -> None:
        self._listener.close()
        for end in self._ends:
            end.close()

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
                data = source.recv(65536)
                self._hold()
                if not data:
                    break
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


def _reset(end: socket.socket) -> None:
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.close()
