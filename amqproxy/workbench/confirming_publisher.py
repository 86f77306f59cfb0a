"""Publishes with `mandatory` and publisher confirms, and knows what became of each message."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import trio

from amqproxy.amqp091.commands import Command, CommandReader
from amqproxy.amqp091.frame import METHOD, OVERHEAD
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ChannelClose,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ExchangeDeclare,
    ExchangeDeclareOk,
    Method,
)
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.moving.broker_link import NO_ANSWER, Answer, BrokerLink, ChannelRefused
from amqproxy.moving.message_forwarder import CHANNEL, MoveFailed, refusal
from amqproxy.moving.unsettled_messages import MAX_BYTES, UnsettledMessages
from amqproxy.proxy.broker_login import LOST
from amqproxy.workbench.batch_failure import BatchFailure
from amqproxy.workbench.publish_window import AMBIGUOUS, Publication, PublishWindow
from amqproxy.workbench.queue_reader import LARGEST_BODY

CONFIRM_TIMEOUT = 60.0
"""Seconds without any progress after which the target counts as stuck, such as by a memory or disk alarm.

Progress is a confirm, or a piece that the target has read.
"""

PIECE = 1024 * 1024
"""Bytes, to the next end of a frame, that are sent at a time."""


class ConfirmingPublisher:
    """Publisher over a link of its own.

    After a batch, `unconfirmed` counts its messages that may be at the broker and that nobody acknowledges. `repeated`
    counts messages that were published again after an error of the channel, and may be at the broker twice.
    """

    def __init__(self, link: BrokerLink) -> None:
        self.link = link
        self.unconfirmed = 0
        self.repeated = 0
        self._is_confirming = False
        self._is_careful = False
        """Whether messages are published one by one, so that it is certain which one a return means."""
        self._unsettled = UnsettledMessages()
        self._exchanges: dict[str, str] = {"": ""}

    async def ask(self, method: Method, answer: type[Answer]) -> Answer:
        """Send a request between two batches; raise `ChannelRefused`, after which the channel can be used again."""
        try:
            return await self.link.ask(method, answer)
        except ChannelRefused:
            await self._renew()
            raise

    async def _renew(self) -> None:
        self._is_confirming = False
        await self.link.renew_channel()

    def expect(self, exchange: str) -> None:
        """Treat an exchange as one that exists: a run that is not a dry one declares it."""
        self._exchanges[exchange] = ""

    async def missing(self, exchange: str) -> str:
        """Return why nothing can be published to an exchange; "" if it exists."""
        if exchange not in self._exchanges:
            try:
                await self.ask(ExchangeDeclare(exchange=exchange, passive=True), ExchangeDeclareOk)
                self._exchanges[exchange] = ""
            except ChannelRefused as error:
                self._exchanges[exchange] = str(error)
        return self._exchanges[exchange]

    async def publish(self, publications: Sequence[Publication]) -> list[str]:
        """Publish, and wait until all are confirmed; return "" for each, or why the broker did not take it.

        If an error closes the channel, the unconfirmed ones are published again one by one, so that only those are
        left that the broker refuses. Raise `BatchFailure` if the connection is lost, if nothing is confirmed for long,
        or if it is unknown which message was returned.
        """
        outcomes: list[str | None] = [None] * len(publications)
        sent: set[int] = set()
        unknown: tuple[str | None, ...] = (None, AMBIGUOUS)
        try:
            await self._publish(publications, outcomes, sent)
        except (MoveFailed, ChannelRefused, *LOST) as error:
            raise BatchFailure(str(error) or NO_ANSWER, outcomes) from error
        except BaseException:  # cancelled: those that are confirmed will not be acknowledged
            unknown = (None, AMBIGUOUS, "")
            raise
        finally:
            self.unconfirmed = sum(outcomes[place] in unknown for place in sent)
        return [outcome or "" for outcome in outcomes]

    async def _publish(self, publications: Sequence[Publication], outcomes: list[str | None], sent: set[int]) -> None:
        waiting = deque(range(len(publications)))
        singles = 0
        """Messages at the head of `waiting` that are published again, one by one."""
        is_repeat = False
        while waiting:
            if not self._is_confirming:
                await self.ask(ConfirmSelect(), ConfirmSelectOk)
                self._is_confirming, self._unsettled = True, UnsettledMessages()
            window = PublishWindow(self._unsettled, outcomes)
            is_single = singles > 0 or self._is_careful
            data = self._take(publications, waiting, window, outcomes, is_single=is_single)
            places = window.places
            sent.update(places)
            closed = await self._send(data, window)
            self._is_careful = self._is_careful or window.is_ambiguous
            if singles:
                singles -= 1
                # Brokers process no publish of a channel behind the one that made them close it.
                is_repeat = is_repeat and closed is None
                self.repeated += is_repeat and outcomes[places[0]] == ""
            if closed is None:
                continue
            again = [place for place in window.places if outcomes[place] is None]
            if len(places) > 1:
                waiting.extendleft(reversed(again))
                singles, is_repeat = len(again), True
            else:
                for place in again:
                    outcomes[place] = str(refusal("the target", closed))
            await self._renew()

    def _take(
        self,
        publications: Sequence[Publication],
        waiting: deque[int],
        window: PublishWindow,
        outcomes: list[str | None],
        *,
        is_single: bool,
    ) -> bytes:
        """Put the next publishes into a window, one or about `MAX_BYTES`; return their frames."""
        encoded: list[bytes] = []
        size = 0
        while waiting and not (window and (is_single or size + len(publications[waiting[0]].body) > MAX_BYTES)):
            place = waiting.popleft()
            each = publications[place]
            if self.link.frame_max and _header_size(each.properties) > self.link.frame_max:
                outcomes[place] = "its properties exceed the target's frame_max"
                continue
            method = BasicPublish(exchange=each.exchange, routing_key=each.routing_key, mandatory=True)
            frames = Command(CHANNEL, method, each.properties, each.body).encode(self.link.frame_max)
            window.add(place, each, len(frames))
            encoded.append(frames)
            size += len(frames)
        return b"".join(encoded)

    async def _send(self, data: bytes, window: PublishWindow) -> ChannelClose | None:
        """Send publishes, and wait for their confirms; return the error with which the target closes the channel."""
        closed: ChannelClose | None = None
        commands = CommandReader(LARGEST_BODY)
        failures: list[BaseException] = []
        async with trio.open_nursery() as nursery:
            patience = nursery.cancel_scope

            def progress() -> None:
                patience.deadline = trio.current_time() + CONFIRM_TIMEOUT

            async def send() -> None:
                # The target may return messages meanwhile: who does not read them could be blocked by it.
                try:
                    for piece in _pieces(data):
                        await self.link.send(piece)
                        progress()
                except Exception as error:  # noqa: BLE001 - raised below, outside the nursery, which would wrap it
                    failures.append(error)
                    nursery.cancel_scope.cancel()

            progress()
            nursery.start_soon(send)
            try:
                while window and closed is None:
                    before = len(window)
                    for frame in await self.link.receive():
                        command = commands.add(frame) if frame.channel or frame.kind == METHOD else None
                        if command is not None and closed is None:
                            closed = _note(command, window)
                    if len(window) < before:  # heartbeats are not progress
                        progress()
            except Exception as error:  # noqa: BLE001 - as above
                failures.append(error)
                nursery.cancel_scope.cancel()
        if failures:
            raise failures[0]
        if patience.cancelled_caught:
            raise MoveFailed(f"the target has confirmed nothing for {CONFIRM_TIMEOUT:g} s: has it an alarm?")
        return closed


def _note(command: Command, window: PublishWindow) -> ChannelClose | None:
    method: Any = command.method
    match method:
        case BasicAck() | BasicNack():
            window.settle(method)
        case BasicReturn():
            window.note_return(command)
        case ConnectionClose():
            raise refusal("the target", method)
        case ChannelClose():
            return method
    return None


def _pieces(data: bytes) -> Iterator[bytes]:
    """Cut frames into pieces of whole frames, of at least `PIECE` bytes but for the last one."""
    start = end = 0
    while len(data) - start > PIECE:
        while end - start < PIECE:
            end += OVERHEAD + int.from_bytes(data[end + 3 : end + 7])
        yield data[start:end]
        start = end
    if start < len(data):
        yield data[start:]


def _header_size(properties: Properties) -> int:
    return len(ContentHeader(0, properties).encode()) + OVERHEAD
