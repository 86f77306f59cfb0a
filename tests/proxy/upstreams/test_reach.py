"""A dial as the way of a session to its broker."""

from contextlib import nullcontext

from amqproxy.proxy.upstreams.reach import Reached, reach_by
from amqproxy.rules.context import Client
from amqproxy.sockets.transport import SocketTransport, Transport
from tests.proxy.stage import connected


async def test_the_header_is_sent_and_no_answer_awaited() -> None:
    theirs, ours = connected()

    async def dial() -> Transport:
        return SocketTransport(ours)

    reached = await reach_by(dial)(b"AMQP", Client(), nullcontext)
    assert theirs.recv(10) == b"AMQP"
    assert reached == Reached(reached.transport)
    await reached.transport.aclose()
    theirs.close()


async def test_a_broker_that_is_gone_is_reported_by_the_next_receive() -> None:
    theirs, ours = connected()
    theirs.close()

    async def dial() -> Transport:
        return SocketTransport(ours)

    reached = await reach_by(dial)(b"AMQP", Client(), nullcontext)
    assert reached.member is None
    await reached.transport.aclose()
