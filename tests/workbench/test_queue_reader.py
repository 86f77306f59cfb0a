"""Requests of the queue reader: how many are on their way when large messages come."""

from __future__ import annotations

from collections import deque

import pytest
import trio

from amqproxy.amqp091.frame import BODY, HEADER, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import BasicGetEmpty, BasicGetOk, Method
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.workbench.queue_reader import MAX_REQUESTS, QueueReader

SMALL, LARGE = b"s", b"l" * 20_000_000


class Queue:
    """A link to a queue with these bodies; `most` is the highest number of requests that were unanswered."""

    def __init__(self, bodies: list[bytes]) -> None:
        self.bodies = deque(bodies)
        self.unanswered = self.most = 0
        self.on_their_way: list[int] = []

    async def request(self, method: Method, times: int = 1) -> None:
        self.unanswered += times
        self.most = max(self.most, self.unanswered)

    async def receive_answer(self) -> list[Frame]:
        assert self.unanswered
        if not self.bodies:
            self.unanswered -= 1
            return [Frame(encode_method(1, BasicGetEmpty()))]
        body = self.bodies.popleft()
        if body is LARGE:
            self.on_their_way.append(self.unanswered)
        self.unanswered -= 1
        return [
            Frame(encode_method(1, BasicGetOk(1))),
            Frame(encode_frame(HEADER, 1, ContentHeader(len(body), Properties()).encode())),
            Frame(encode_frame(BODY, 1, body)),
        ]


def read(queue: Queue, *counts: int) -> list[int]:
    async def main() -> list[int]:
        reader = QueueReader(queue, "q")  # type: ignore[arg-type]
        return [len(await reader.read(count)) for count in counts]

    return trio.run(main)


def test_a_small_message_does_not_let_many_large_ones_come_at_once() -> None:
    queue = Queue([SMALL, *[LARGE] * 8])
    assert sum(read(queue, *[256] * 9)) == 9
    assert queue.on_their_way[0] <= 2
    assert set(queue.on_their_way[2:]) == {1}


@pytest.mark.parametrize("count", [1, 64, 256, 300])
def test_small_messages_are_requested_ahead(count: int) -> None:
    queue = Queue([SMALL] * count)
    assert sum(read(queue, 256, 256)) == count
    assert queue.most == min(count, MAX_REQUESTS) or count < 2 * MAX_REQUESTS
