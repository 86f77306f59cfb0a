"""The blocking client of the control socket, for scripts and commands."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from amqproxy.control.client_lines import (
    TIMEOUT,
    ResponseMapping,
    checked,
    decoded,
    gone,
    request_line,
    unreachable,
)


class ControlClient:
    """A connection to a proxy's control socket, which sends one request at a time and waits for its response.

    A context manager:

        with ControlClient("amqproxy.sock") as client:
            for each in client.ask("connections")["connections"]:
                print(each["user"], each["channels"])

    `RequestError` with the name "unreachable" if no proxy listens there. Not thread-safe.
    """

    def __init__(self, path: Path | str, timeout: float = TIMEOUT) -> None:
        """Connect; each response may take `timeout` seconds."""
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise unreachable(path, error) from None
        self._lines = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; a subscription ends with it."""
        self._lines.close()
        self._socket.close()

    def ask(self, request: str, **keys: Any) -> ResponseMapping:
        """Send a request with these keys, and return its response; keys whose value is None are left out.

        `RequestError` with the error name of the response (docs/control.md), or "unreachable" if the proxy is gone.
        """
        line = request_line(request, keys)
        try:
            self._socket.sendall(line)
        except OSError as error:
            raise gone(self._path, error) from None
        return checked(self._read(), self._path)

    def events(self) -> Iterator[ResponseMapping]:
        """Yield events after a `watch` or `subscribe` request, for as long as the proxy runs."""
        self._socket.settimeout(None)
        while (event := self._read()) is not None:
            yield event

    def _read(self) -> ResponseMapping | None:
        try:
            line = self._lines.readline()
        except OSError as error:
            raise gone(self._path, error) from None
        return decoded(line)
