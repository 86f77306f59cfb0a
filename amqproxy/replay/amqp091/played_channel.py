"""One channel of a connection that is played: as it was recorded, and as it is live."""

from __future__ import annotations

from collections import OrderedDict, deque
from enum import StrEnum

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicConsume, BasicConsumeOk, Method, QueueDeclare, QueueDeclareOk
from amqproxy.amqp091.transitions import ANSWERS
from amqproxy.replay.deliveries import LiveDelivery

MAX_UNCONFIRMED = 1_000_000
"""Publishes of a channel whose recorded confirm has not come up; the oldest is forgotten first."""


class LiveState(StrEnum):
    """Where the live channel is in its life."""

    OPENING = "opening"
    OPEN = "open"
    CLOSED_BY_SERVER = "closed by server"
    """The live broker has closed it, and we have not answered yet."""
    CLOSED_BY_CLIENT = "closed by client"
    """We have closed it, and the broker has not answered yet."""
    CLOSED = "closed"


class PlayedConsumer:
    """A consumer that was started: `queue` is recorded, its tags are both."""

    __slots__ = ("is_ending", "no_ack", "queue", "recorded_tag")

    def __init__(self, queue: str, recorded_tag: str, *, no_ack: bool) -> None:
        self.queue = queue
        self.recorded_tag = recorded_tag
        self.no_ack = no_ack
        self.is_ending = False


class PlayedRequest:
    """A request of the recording. `was_sent` is whether it was played, `consumer` what it began."""

    __slots__ = ("consumer", "method", "was_sent")

    def __init__(self, method: Method, *, was_sent: bool, consumer: PlayedConsumer | None = None) -> None:
        self.method = method
        self.was_sent = was_sent
        self.consumer = consumer


class PlayedChannel:
    """A channel, from its channel.open on, or from the first of it that the capture has.

    `is_ending` is whether the recorded client has asked for its end; `is_unknown` whether its beginning is not in the
    capture. Publishes are numbered from confirm.select on, in the recording and live.
    """

    def __init__(self, number: int, *, is_unknown: bool = False) -> None:
        self.number = number
        self.is_unknown = is_unknown
        self.live = LiveState.OPENING
        self.is_open = is_unknown
        """Is it open in the recording?"""
        self.is_ending = False
        self.is_quiet = False
        """Has it an end that is not the recording's?"""
        self.is_stopped = False
        """Has the live broker asked for no more contents?"""
        self.is_close_recorded = False
        """Has the recorded broker closed it?"""
        self.is_close_unsent = False
        """Was the recorded client's close not sent, since the channel was closed?"""
        self.has_unwanted = False
        """Were commands left out that are not wanted?"""
        self.why_closed = ""
        self.is_transactional = False
        # What the broker answers.
        self.requests: deque[PlayedRequest] = deque()
        self.live_requests: deque[PlayedRequest] = deque()
        self.arrived: dict[str, deque[Command]] = {}
        self.last_queue = ""
        # Consumers and deliveries.
        self.consumers: dict[str, PlayedConsumer] = {}
        self.live_consumers: dict[str, PlayedConsumer] = {}
        self.last_recorded_tag = 0
        self.last_live_tag = 0
        self.recorded_open: dict[int, LiveDelivery | None] = {}
        self.live_open: dict[int, LiveDelivery] = {}
        # Publishes and confirms.
        self.is_confirming = False
        self.recorded_publishes = 0
        self.live_publishes = 0
        self.unconfirmed: OrderedDict[int, int | None] = OrderedDict()  # whose first is found at once
        """Recorded numbers of publishes whose recorded confirm has not come up yet, and their live numbers."""
        self.live_unconfirmed: OrderedDict[int, None] = OrderedDict()
        self.confirmed: OrderedDict[int, str] = OrderedDict()
        """What the live broker said of publishes whose recorded confirm has not come up yet."""

    @property
    def is_over(self) -> bool:
        """Is there nothing more to come from the live broker?"""
        return self.live in (LiveState.CLOSED, LiveState.CLOSED_BY_SERVER)

    def queue_of(self, name: str) -> str:
        """The recorded name of the queue that a request means."""
        return name or self.last_queue

    def note_request(self, method: Method, *, was_sent: bool) -> PlayedRequest:
        """The recorded client has sent a request that is answered."""
        request = PlayedRequest(method, was_sent=was_sent)
        self.requests.append(request)
        if was_sent:
            self.live_requests.append(request)
        if isinstance(method, QueueDeclare) and method.queue:
            self.last_queue = method.queue
        return request

    def number_publish(self, *, is_sent: bool) -> None:
        """The recorded client has published with confirms; was it played?"""
        self.recorded_publishes += 1
        self.unconfirmed[self.recorded_publishes] = None
        if is_sent:
            self.live_publishes += 1
            self.unconfirmed[self.recorded_publishes] = self.live_publishes
            self.live_unconfirmed[self.live_publishes] = None
        for numbers in (self.unconfirmed, self.live_unconfirmed, self.confirmed):
            if len(numbers) > MAX_UNCONFIRMED:
                numbers.popitem(last=False)

    def take_recorded(self, reply: Method) -> PlayedRequest | None:
        """The request that a recorded reply answers."""
        request = _answered(self.requests, reply)
        if isinstance(reply, QueueDeclareOk) and request is not None and not getattr(request.method, "queue", ""):
            self.last_queue = reply.queue
        if isinstance(reply, BasicConsumeOk) and request is not None and request.consumer is not None:
            request.consumer.recorded_tag = reply.consumer_tag
            self.consumers[reply.consumer_tag] = request.consumer
        return request

    def take_live(self, reply: Method) -> PlayedRequest | None:
        """The request that a live reply answers."""
        request = _answered(self.live_requests, reply)
        if isinstance(reply, BasicConsumeOk) and request is not None and request.consumer is not None:
            self.live_consumers[reply.consumer_tag] = request.consumer
        return request

    def take_arrived(self, names: tuple[str, ...]) -> Command | None:
        """The first live command with one of these names that no recorded one was found for yet."""
        for name in names:
            waiting = self.arrived.get(name)
            if waiting:
                return waiting.popleft()
        return None


def _answered(requests: deque[PlayedRequest], reply: Method) -> PlayedRequest | None:
    """The oldest request that `reply` can answer; of consumers, the one with its tag."""
    name = ANSWERS.get(reply.name)
    found = None
    for request in requests:
        if request.method.name != name:
            continue
        if isinstance(reply, BasicConsumeOk) and isinstance(request.method, BasicConsume):
            tag = request.method.consumer_tag
            if tag == reply.consumer_tag:
                found = request
                break
            if not tag and found is None:
                found = request
            continue
        found = request
        break
    if found is not None:
        requests.remove(found)
    return found
