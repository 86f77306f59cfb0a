"""Connections that come over the line, also where the process has no file descriptor for one."""

from __future__ import annotations

import socket
from array import array
from contextlib import aclosing
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from amqproxy.proxy.upstream import Unreachable
from amqproxy.shovels.broker_line import BrokerLine
from amqproxy.shovels.broker_uri import parse_uri
from amqproxy.shovels.shovel_messages import LocalConnection


class NarrowSocket:
    """A socket that may have no room for a descriptor, which the kernel then drops as at the limit of descriptors."""

    def __init__(self, end: socket.socket) -> None:
        self.space: int | None = None
        self._socket = trio.socket.from_stdlib_socket(end)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    async def recvmsg(self, most: int, space: int) -> Any:
        return await self._socket.recvmsg(most, space if self.space is None else self.space)


async def answer(line: BrokerLine, broker: socket.socket, request: int) -> None:
    """Send a connection, and let the line receive it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.send(b"%d" % request)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", [theirs.fileno()]))]
        broker.sendmsg([msgspec.json.encode(LocalConnection(request)) + b"\n"], rights)
        async with aclosing(line.received()) as lines:
            data = await anext(lines)
        line.answer(msgspec.json.decode(data, type=LocalConnection))


async def test_a_connection_without_a_file_descriptor_is_refused_and_no_other_gets_a_wrong_one() -> None:
    broker, end = socket.socketpair()
    with broker:
        narrow = NarrowSocket(end)
        line = BrokerLine(narrow)  # type: ignore[arg-type]
        received: list[bytes] = []

        async def refused() -> None:
            with pytest.raises(Unreachable, match="no file descriptor left"):
                await line.open_local(parse_uri("amqp://"))

        async def opened() -> None:
            transport = await line.open_local(parse_uri("amqp://"))
            received.append(await transport.receive())
            await transport.aclose()

        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(refused)
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(opened)
                await trio.testing.wait_all_tasks_blocked()
                narrow.space = 0
                await answer(line, broker, 1)
                narrow.space = None
                await answer(line, broker, 2)
        assert received == [b"2"]
        end.close()
