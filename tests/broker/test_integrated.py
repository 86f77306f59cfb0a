"""The broker as an upstream in the same process."""

import pytest
import trio
import trio.testing

from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.broker.broker import Broker
from amqproxy.broker.integrated import Integrated
from amqproxy.broker.server import memory_in_use, usual_memory_limit


async def test_each_connection_is_a_link_of_its_own() -> None:
    integrated = Integrated(Broker())
    async with trio.open_nursery() as nursery:
        await nursery.start(integrated.run)
        ends = [trio.SocketStream(trio.socket.from_stdlib_socket(integrated.open())) for _ in range(2)]
        for end in ends:
            await end.send_all(HEADER)
            assert (await end.receive_some(4096))[:1] == b"\x01"
        assert len(integrated.broker.links) == 2
        for end in ends:
            await end.aclose()
        with trio.fail_after(5):
            while integrated.broker.links:
                await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


async def test_nothing_is_opened_before_it_runs() -> None:
    with pytest.raises(AssertionError):
        Integrated(Broker()).open()


def test_memory_is_known_and_bounded() -> None:
    in_use = memory_in_use()
    assert in_use is not None
    assert 1_000_000 < in_use < usual_memory_limit()
