"""Messages of a queue by basic.get: each one that is got is held until it is acknowledged or returned."""

from __future__ import annotations

import trio

from amqproxy.amqp091.commands import CommandReader
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    ChannelClose,
    ConnectionClose,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.moving.broker_link import BrokerLink
from amqproxy.moving.message_forwarder import CHANNEL, MoveFailed, refusal
from amqproxy.moving.unsettled_messages import MAX_BYTES
from amqproxy.workbench.held_message import HeldMessage

MAX_REQUESTS = 64
"""Maximum of basic.get requests without an answer."""

SEND_TIMEOUT = 10.0
"""Seconds for the sending of requests and acknowledgements, which a cancellation does not cut in the middle."""

LARGEST_BODY = 512 * 1024 * 1024
"""Largest body that is read, in bytes: RabbitMQ's own limit."""


class QueueReader:
    """Reads a queue over a link of its own. `held` counts messages that are neither acknowledged nor returned."""

    def __init__(self, link: BrokerLink, queue: str) -> None:
        self.held = 0
        self.latest: dict[int, HeldMessage] = {}
        """Messages of the last `read` that are not acknowledged, by delivery tag."""
        self._link = link
        self._queue = queue
        self._commands = CommandReader(LARGEST_BODY)
        self._next = 0
        self._unanswered = 0
        self._largest = MAX_BYTES
        """Bytes of the largest message: until the first one is there, only one is requested."""
        self._pace = 1
        """Requests that may be unanswered: one more for each answer."""

    async def read(self, count: int) -> list[HeldMessage]:
        """Return the next messages, at most `count`, and about `MAX_BYTES` of them; none at the end of the queue.

        Requests are sent ahead of their answers, as many as fit if all messages are as large as the largest one so
        far; at first few, so that large ones behind small ones are not all on their way at once. Raise `MoveFailed` if
        the broker refuses, or one of `LOST`.
        """
        found: list[HeldMessage] = []
        self.latest = {}
        size = asked = answered = 0
        while True:
            room = min(max(MAX_BYTES - size, 0) // self._largest, self._pace)
            wanted = min(count - asked, room - (asked - answered))
            if not asked:
                wanted = max(wanted, min(count, 1))
            if wanted > 0:
                with trio.fail_after(SEND_TIMEOUT, shield=True):  # half a frame would make the link useless
                    await self._link.request(BasicGet(queue=self._queue), wanted)
                self._unanswered += wanted
                asked += wanted
            if asked == answered:
                return found
            for command in await self._receive():
                answered += 1
                if isinstance(command, HeldMessage):
                    found.append(command)
                    size += command.size
                    if self._largest == MAX_BYTES:
                        self._largest = 1024
                    self._largest = max(self._largest, command.size)
                    self._pace = min(self._pace + 1, MAX_REQUESTS)
                else:
                    count = asked

    async def _receive(self) -> list[HeldMessage | None]:
        """Return the answers that come next, `None` for an empty queue."""
        answers: list[HeldMessage | None] = []
        for frame in await self._link.receive_answer():
            if not frame.channel:
                if frame.kind == 1 and isinstance(frame.method, ConnectionClose):
                    self._lose()
                    raise refusal("the source", frame.method)
                continue
            try:
                command = self._commands.add(frame)
            except ProtocolError as error:
                self._unanswered = 0
                raise MoveFailed(f"the source sent a message that cannot be read: {error}") from None
            if command is None:
                continue
            method = command.method
            if isinstance(method, BasicGetOk):
                message = HeldMessage(command, self._next)
                answers.append(message)
                self.latest[message.delivery_tag] = message
                self._next += 1
                self._unanswered -= 1
                self.held += 1
            elif isinstance(method, BasicGetEmpty):
                self._unanswered -= 1
                answers.append(None)
            elif isinstance(method, ChannelClose):
                self._lose()
                raise refusal("the source", method)
        return answers

    def _lose(self) -> None:
        """Note that the broker has closed the channel, and so returned what was held."""
        self._unanswered = self.held = 0

    async def finish(self) -> None:
        """Receive the answers of a `read` that was ended in the middle; its messages are in `latest`, too."""
        while self._unanswered:
            await self._receive()

    async def acknowledge(self, messages: list[HeldMessage]) -> None:
        """Remove messages from the queue."""
        acks = [encode_method(CHANNEL, BasicAck(message.delivery_tag)) for message in messages]
        with trio.fail_after(SEND_TIMEOUT, shield=True):
            await self._link.send(b"".join(acks))
        for message in messages:
            self.latest.pop(message.delivery_tag, None)
        self.held -= len(messages)

    async def give_back(self, *, by_closing: bool = False) -> None:
        """Return all held messages at once, so that the broker keeps their order.

        `by_closing` closes the channel instead of basic.nack; see `disturbance`.
        """
        if not self.held:
            return
        if by_closing:
            await self._link.close_channel()
        else:
            await self._link.send(encode_method(CHANNEL, BasicNack(0, multiple=True, requeue=True)))
        self.held = 0

    async def depth(self) -> QueueDeclareOk:
        """Return the numbers of ready messages and consumers: the answer comes after all that was sent before."""
        return await self._link.ask(QueueDeclare(queue=self._queue, passive=True), QueueDeclareOk)
