"""The proxy's own connections to a broker."""

from __future__ import annotations

import pytest
import trio

from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.methods import ConnectionStartOk
from amqproxy.proxy.broker_login import BrokerRefused, open_connection, send_close
from amqproxy.sockets.transport import SocketTransport, TransportBroken
from tests.proxy.stage import connected
from tests.transcripts.words import octets, words

START = ConnectionStartOk(response=b"\0guest\0guest")


async def test_a_login_and_its_close() -> None:
    theirs, ours = connected()
    transport, connection = SocketTransport(ours), Connection()
    seen = []
    answers = ["connection.start", "connection.tune", "connection.open-ok", "connection.close-ok"]

    async def serve() -> None:
        broker = SocketTransport(theirs)
        for answer in answers:
            seen.append(words(await broker.receive()))
            if "tune-ok" in seen[-1] and "open" not in seen[-1].replace("tune-ok", ""):
                seen[-1] += ", " + words(await broker.receive())
            await broker.send(octets(answer))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        with trio.fail_after(5):
            await open_connection(transport, connection, START, "/")
            await send_close(transport, connection, "done", 5.0)
    assert [each.split()[0].rstrip(",") for each in seen] == [
        "header",
        "connection.start-ok",
        "connection.tune-ok",
        "connection.close",
    ]
    await transport.aclose()
    theirs.close()


@pytest.mark.parametrize(("answer", "error"), [("connection.close 403", BrokerRefused), ("", TransportBroken)])
async def test_a_login_that_fails(answer: str, error: type[Exception]) -> None:
    theirs, ours = connected()
    transport = SocketTransport(ours)
    if answer:
        theirs.send(octets("connection.start") + octets(answer))
    theirs.shutdown(1)
    with pytest.raises(error):
        await open_connection(transport, Connection(), START, "/")
    await transport.aclose()
    theirs.close()
