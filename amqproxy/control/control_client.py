"""The asker's end of the control socket, for the command: no trio, one request at a time."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from amqproxy.control.request import RequestError

TIMEOUT = 30.0
"""Seconds to wait for an answer."""


class ControlClient:
    """A connection to a proxy's control socket. `RequestError` with the name "unreachable" when there is none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(TIMEOUT)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            reason = error.strerror or str(error)
            raise RequestError("unreachable", f"no amqproxy answers at {path}: {reason}") from None
        self._lines = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lines.close()
        self._socket.close()

    def ask(self, request: str, **arguments: Any) -> dict[str, Any]:
        """What is answered. `RequestError` with the proxy's own word for what is wrong."""
        message = {"request": request} | {name: value for name, value in arguments.items() if value is not None}
        try:
            self._socket.sendall(msgspec.json.encode(message) + b"\n")
        except UnicodeEncodeError:
            raise RequestError("malformed", "a text of the request is not UTF-8") from None
        except OSError as error:
            raise RequestError("unreachable", f"{self._path}: {error.strerror or error}") from None
        answer = self._read()
        if answer is None:
            raise RequestError("unreachable", f"{self._path}: amqproxy is gone")
        if not answer.get("ok"):
            raise RequestError(str(answer.get("error")), str(answer.get("text")))
        return answer

    def events(self) -> Iterator[dict[str, Any]]:
        """What happens, once one has asked to watch, for as long as the proxy runs."""
        self._socket.settimeout(None)
        while (event := self._read()) is not None:
            yield event

    def _read(self) -> dict[str, Any] | None:
        try:
            line = self._lines.readline()
        except OSError as error:
            raise RequestError("unreachable", f"{self._path}: {error.strerror or error}") from None
        return msgspec.json.decode(line, type=dict[str, Any]) if line else None
