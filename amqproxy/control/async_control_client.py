"""The client of the control socket for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
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
from amqproxy.control.request_error import RequestError

MAX_RESPONSE = 64 * 1024 * 1024
"""Size limit of one response or event, in bytes."""

READ_BUFFER = 256 * 1024
"""Bytes received above which the proxy has to wait, apart from a line that is longer."""


class AsyncControlClient:
    """Asyncio counterpart of `ControlClient`, created by `connect`.

        async with await AsyncControlClient.connect("amqproxy.sock") as client:
            await client.ask("subscribe", messages=True)
            async for event in client.events():
                print(event)

    One task at a time may use it.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: Path | str) -> None:
        self._reader = reader
        self._writer = writer
        self._path = path

    @classmethod
    async def connect(cls, path: Path | str) -> Self:
        """Connect to a proxy's control socket. `RequestError` with the name "unreachable" when none listens there."""
        try:
            reader, writer = await asyncio.open_unix_connection(str(path), limit=READ_BUFFER)
        except OSError as error:
            raise unreachable(path, error) from None
        return cls(reader, writer, path)

    @property
    def is_open(self) -> bool:
        """Whether the proxy has not closed the connection, as far as is known."""
        return not (self._writer.is_closing() or self._reader.at_eof())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection; a subscription ends with it."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def ask(self, request: str, **keys: Any) -> ResponseMapping:
        """Send a request and return its response, as `ControlClient.ask` does."""
        line = request_line(request, keys)
        try:
            async with asyncio.timeout(TIMEOUT):
                self._writer.write(line)
                await self._writer.drain()
                return checked(await self._read(), self._path)
        except TimeoutError:
            raise RequestError("unreachable", f"{self._path}: amqproxy does not answer") from None
        except OSError as error:
            raise gone(self._path, error) from None

    async def pieces(self, request: str, **keys: Any) -> AsyncGenerator[list[Any]]:
        """Send a request for a list that comes in pieces, and yield their entries; `RequestError` as for `ask`."""
        response = await self.ask(request, **keys)
        while True:
            yield response["objects"]
            if not response["more"]:
                return
            await asyncio.sleep(0)  # the next piece may be here
            try:
                async with asyncio.timeout(TIMEOUT):
                    response = checked(await self._read(), self._path)
            except TimeoutError:
                raise RequestError("unreachable", f"{self._path}: amqproxy does not answer") from None

    async def send(self, request: str, **keys: Any) -> None:
        """Send a request while following events: its response comes among the events, as one without `event`."""
        try:
            self._writer.write(request_line(request, keys))
            await self._writer.drain()
        except OSError as error:
            raise gone(self._path, error) from None

    async def events(self) -> AsyncIterator[ResponseMapping]:
        """Yield events, as `ControlClient.events` does."""
        while (event := await self._read()) is not None:
            yield event

    async def _read(self) -> ResponseMapping | None:
        try:
            line = await self._line()
        except (OSError, ValueError) as error:
            raise gone(self._path, error) from None
        return decoded(line)

    async def _line(self) -> bytes:
        """Return the next line, which may be longer than the buffer; without its end, or none, at the end."""
        parts = bytearray()
        while True:
            try:
                last = await self._reader.readuntil(b"\n")
                return bytes(parts + last) if parts else last
            except asyncio.IncompleteReadError as end:
                return bytes(parts + end.partial)
            except asyncio.LimitOverrunError as overrun:
                parts += await self._reader.readexactly(overrun.consumed)
            if len(parts) > MAX_RESPONSE:
                raise ValueError(f"a response is longer than {MAX_RESPONSE} bytes")
