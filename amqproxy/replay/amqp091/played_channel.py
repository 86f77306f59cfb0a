"""One channel of a connection that is played: its recorded and its live state."""

from __future__ import annotations

from collections import OrderedDict, deque
from enum import StrEnum

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicConsume, BasicConsumeOk, Method, QueueDeclare, QueueDeclareOk
from amqproxy.amqp091.transitions import ANSWERS
from amqproxy.replay.deliveries import LiveDelivery

MAX_UNCONFIRMED = 1_000_000
"""Unconfirmed publishes of a channel that are remembered; the oldest is forgotten first."""


class LiveState(StrEnum):
    """The state of the live channel."""

    OPENING = "opening"
    OPEN = "open"
    CLOSED_BY_SERVER = "closed by server"
    """Closed by the live broker, with the answer outstanding."""
    CLOSED_BY_CLIENT = "closed by client"
    """Closed by the player, with the live broker's answer outstanding."""
    CLOSED = "closed"


class PlayedConsumer:
    """A consumer that was started; `queue` is the recorded name."""

    __slots__ = ("is_ending", "no_ack", "queue", "recorded_tag")

    def __init__(self, queue: str, recorded_tag: str, *, no_ack: bool) -> None:
        self.queue = queue
        self.recorded_tag = recorded_tag
        self.no_ack = no_ack
        self.is_ending = False


class PlayedRequest:
    """A recorded request. `was_sent` is whether it was played, `consumer` the consumer that it started."""

    __slots__ = ("consumer", "method", "was_sent")

    def __init__(self, method: Method, *, was_sent: bool, consumer: PlayedConsumer | None = None) -> None:
        self.method = method
        self.was_sent = was_sent
        self.consumer = consumer


class PlayedChannel:
    """A channel, from its channel.open on, or from its first step in the capture.

    `is_ending` is whether the recorded client has requested its close; `is_unknown` whether its beginning is not in the
    capture. Publishes are numbered from confirm.select on, in the recording and live.
    """

    def __init__(self, number: int, *, is_unknown: bool = False) -> None:
        self.number = number
        self.is_unknown = is_unknown
        self.live = LiveState.OPENING
        self.is_open = is_unknown
        """Whether the channel is open in the recording."""
        self.is_ending = False
        self.is_quiet = False
        """Whether the player closes the channel without a recorded close, so that its close-ok is not compared."""
        self.is_stopped = False
        """Whether the live broker has stopped contents by channel.flow."""
        self.is_close_recorded = False
        """Whether the recorded broker has closed the channel."""
        self.is_close_unsent = False
        """Whether the recorded client's close was not sent, since the live channel was closed."""
        self.has_unwanted = False
        """Whether unwanted commands were left out."""
        self.why_closed = ""
        self.is_transactional = False
        self.probed: deque[str] = deque()
        """Queues of restored consumers of which the live broker has to say whether they exist."""
        self.missing: set[str] = set()
        # Requests and replies.
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
        self.unconfirmed: OrderedDict[int, int | None] = OrderedDict()  # finds its first entry at once
        """Live numbers, by recorded ones, of publishes whose recorded confirm has not been played; None if not sent."""
        self.live_unconfirmed: OrderedDict[int, None] = OrderedDict()
        self.confirmed: OrderedDict[int, str] = OrderedDict()
        """Name of the live confirm, by live number, of publishes whose recorded confirm has not been played."""

    @property
    def is_over(self) -> bool:
        """Whether the live channel is closed, so that nothing more can come from the broker."""
        return self.live in (LiveState.CLOSED, LiveState.CLOSED_BY_SERVER)

    def queue_of(self, name: str) -> str:
        """Return the recorded name of a request's queue: "" stands for the last declared one."""
        return name or self.last_queue

    def note_request(self, method: Method, *, was_sent: bool) -> PlayedRequest:
        """Note a recorded request that is answered."""
        request = PlayedRequest(method, was_sent=was_sent)
        self.requests.append(request)
        if was_sent:
            self.live_requests.append(request)
        if isinstance(method, QueueDeclare) and method.queue:
            self.last_queue = method.queue
        return request

    def number_publish(self, *, is_sent: bool) -> None:
        """Number a recorded publish in confirm mode, and with `is_sent` its live counterpart."""
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
        """Return the request that a recorded reply answers, and update the recorded consumers."""
        request = _answered(self.requests, reply)
        if isinstance(reply, QueueDeclareOk) and request is not None and not getattr(request.method, "queue", ""):
            self.last_queue = reply.queue
        if isinstance(reply, BasicConsumeOk) and request is not None and request.consumer is not None:
            request.consumer.recorded_tag = reply.consumer_tag
            self.consumers[reply.consumer_tag] = request.consumer
        return request

    def take_live(self, reply: Method) -> PlayedRequest | None:
        """Return the request that a live reply answers, and update the live consumers."""
        request = _answered(self.live_requests, reply)
        if isinstance(reply, BasicConsumeOk) and request is not None and request.consumer is not None:
            self.live_consumers[reply.consumer_tag] = request.consumer
        return request

    def take_arrived(self, names: tuple[str, ...]) -> Command | None:
        """Take the first unmatched live command with one of these names."""
        for name in names:
            waiting = self.arrived.get(name)
            if waiting:
                return waiting.popleft()
        return None


def _answered(requests: deque[PlayedRequest], reply: Method) -> PlayedRequest | None:
    """Remove and return the oldest request that `reply` can answer; for basic.consume, the one with its tag if any."""
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
