"""The client for asyncio, against a socket with prepared answers."""

import asyncio
import subprocess
import sys
from collections.abc import Coroutine
from contextlib import aclosing, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from amqproxy.control import AsyncControlClient, RequestError, async_control_client
from amqproxy.control.async_control_client import READ_BUFFER
from tests.control.answering import answering


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(coroutine)


def test_what_is_asked_and_answered(tmp_path: Path) -> None:
    path = tmp_path / "control"
    answers = b'{"ok":true,"rules":3}\n', b'{"ok":false,"error":"not-held","text":"no"}\n'

    async def ask() -> None:
        async with await AsyncControlClient.connect(path) as client:
            assert await client.ask("reload") == {"ok": True, "rules": 3}
            with pytest.raises(RequestError, match="no") as wrong:
                await client.ask("release", session=1, code=None)
            assert wrong.value.name == "not-held"

    with answering(path, *answers) as requests:
        run(ask())
    assert requests == [b'{"request":"reload"}\n', b'{"request":"release","session":1}\n']


def test_events_and_a_response_of_some_size(tmp_path: Path) -> None:
    path = tmp_path / "control"
    big = b'{"ok":true,"text":"' + b"x" * 1_000_000 + b'"}\n'

    async def follow() -> None:
        async with await AsyncControlClient.connect(str(path)) as client:
            assert len((await client.ask("watch"))["text"]) == 1_000_000
            assert [event["count"] async for event in client.events()] == [1, 2]

    with answering(path, big + b'{"event":"lost","count":1}\n{"event":"lost","count":2}\n'):
        run(follow())


def test_a_list_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "control"
    pieces = b'{"ok":true,"objects":[1,2],"more":true}\n{"ok":true,"objects":[3],"more":false}\n'

    async def ask() -> None:
        async with await AsyncControlClient.connect(path) as client:
            found = [piece async for piece in client.pieces("broker-objects", kind="queues")]
            assert found == [[1, 2], [3]]
            with pytest.raises(RequestError, match="amqproxy is gone"):
                [piece async for piece in client.pieces("broker-objects", kind="queues")]

    with answering(path, pieces, b'{"ok":true,"objects":[],"more":true}\n'):
        run(ask())


def test_a_proxy_that_goes_away_and_no_proxy(tmp_path: Path) -> None:
    path = tmp_path / "control"

    async def ask() -> None:
        async with await AsyncControlClient.connect(path) as client:
            with pytest.raises(RequestError, match="amqproxy is gone") as wrong:
                await client.ask("reload")
            assert wrong.value.name == "unreachable"

    async def connect() -> None:
        with pytest.raises(RequestError, match="no amqproxy answers") as wrong:
            await AsyncControlClient.connect(tmp_path / "nothing")
        assert wrong.value.name == "unreachable"

    with answering(path, b""):
        run(ask())
    run(connect())


def test_a_client_needs_no_proxy() -> None:
    """The dashboard is a process of its own, and a command should start soon."""
    check = "import sys; from amqproxy.control import ControlClient; assert not {'trio', 'asyncio'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)
    check = "import sys; from amqproxy.control import AsyncControlClient; assert 'trio' not in sys.modules"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_a_response_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_control_client, "MAX_RESPONSE", 10_000)
    path = tmp_path / "control"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b'{"ok":true,"text":"' + b"x" * 2 * READ_BUFFER + b'"}\n')
        with suppress(OSError):  # the client reads no further
            await writer.drain()
        writer.close()

    async def ask() -> None:
        async with (
            await asyncio.start_unix_server(serve, str(path)),
            await AsyncControlClient.connect(path) as client,
        ):
            with pytest.raises(RequestError, match="longer than 10000 bytes"):
                await client.ask("watch")

    run(ask())


def test_a_list_that_nobody_reads_stays_at_the_proxy(tmp_path: Path) -> None:
    """Its pieces are not all received: the proxy waits."""
    path = tmp_path / "control"
    piece = b'{"ok":true,"objects":["' + b"x" * READ_BUFFER + b'"],"more":true}\n'

    async def ask() -> None:
        sent = 0

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal sent
            await reader.readline()
            with closing(writer), suppress(OSError):  # the client reads no further
                for _ in range(200):
                    writer.write(piece)
                    await writer.drain()
                    sent += 1

        async with (
            await asyncio.start_unix_server(serve, str(path)),
            await AsyncControlClient.connect(path) as client,
            aclosing(client.pieces("broker-objects")) as pieces,
        ):
            await anext(pieces)
            for _ in range(1000):
                await asyncio.sleep(0)
            assert 0 < sent < 100

    run(ask())
