"""Requests to a broker that sends heartbeats, and no answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from amqproxy.amqp091.frame import HEARTBEAT_FRAME, Frame
from amqproxy.amqp091.methods import ChannelOpen, ChannelOpenOk, Method
from amqproxy.moving.broker_link import ANSWER_TIMEOUT, BrokerLink
from amqproxy.workbench.queue_reader import QueueReader


class BeatingLink(BrokerLink):
    """A link to such a broker."""

    def __init__(self) -> None:
        pass

    async def request(self, method: Method, times: int = 1) -> None:
        pass

    async def receive(self) -> list[Frame]:
        assert trio.current_time() < 10 * ANSWER_TIMEOUT
        await trio.sleep(10)
        return [Frame(HEARTBEAT_FRAME)]


@pytest.mark.parametrize(
    "request_of",
    [
        lambda link: link.ask(ChannelOpen(), ChannelOpenOk),
        lambda link: QueueReader(link, "q").read(1),
        lambda link: QueueReader(link, "q").depth(),
    ],
    ids=["ask", "read", "depth"],
)
def test_heartbeats_are_not_an_answer(request_of: Callable[[BrokerLink], Awaitable[object]]) -> None:
    async def main() -> None:
        with pytest.raises(trio.TooSlowError):
            await request_of(BeatingLink())
        assert trio.current_time() < 2 * ANSWER_TIMEOUT

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
