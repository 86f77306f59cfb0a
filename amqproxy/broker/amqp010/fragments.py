"""Messages that a client transfers in fragments, including those whose rest may still come. Section 10.2.

The fragments are successive transfers to one destination; the first has the properties of the whole. With a resume-id,
the received part of a message outlives its session for a while: message.resume continues it.
"""

from __future__ import annotations

from amqproxy.amqp010.command_ids import CommandIds
from amqproxy.amqp010.errors import IllegalState, ResourceLimitExceeded
from amqproxy.amqp010.properties import FragmentProperties, Header
from amqproxy.amqp010.sequence import MAX_RANGES
from amqproxy.broker.vhost import VirtualHost

MOST_OPEN = 64
"""Maximum number of partly received messages in one session."""

MOST_RANGES = MAX_RANGES - 1
"""Maximum number of command ranges of a message's fragments, without its last: one message.reject names them all."""

USUAL_TTL = 60_000
MOST_TTL = 3_600_000
"""Milliseconds for which a partly received message outlives its session: without a resume-ttl, and at most."""


class FragmentedMessage:
    """A message that has been received in part: its first `size` bytes.

    `positions` are those of its transfers in its session, without the last.
    """

    def __init__(self, vhost: VirtualHost, header: Header) -> None:
        self.header = Header(tuple(each for each in header.entries if not isinstance(each, FragmentProperties)))
        self.positions = CommandIds()
        self.size = 0
        self._vhost = vhost
        self._body = bytearray()
        self._key = ("", "")

    @property
    def routing_key(self) -> str:
        """Routing key of the message."""
        delivery = self.header.delivery
        return (delivery and delivery.routing_key) or ""

    def add(self, body: bytes) -> None:
        """Append the body of the next fragment."""
        self._body += body
        self.size += len(body)
        self._vhost.uncommitted_bytes += len(body)

    def take(self) -> bytes:
        """Return the body received so far, and release its memory."""
        body, self._body = bytes(self._body), bytearray()
        self._vhost.uncommitted_bytes -= self.size
        self.size = 0
        return body

    def keep(self, user: str, now: float) -> bool:
        """Keep the message for that user's message.resume; return False if it cannot be kept."""
        delivery, vhost, quotas = self.header.delivery, self._vhost, self._vhost.quotas
        if delivery is None or delivery.resume_id is None:
            return False
        key = user, delivery.resume_id
        former = vhost.interrupted.get(key)
        if former is not None:
            former.tick(now)
        if not quotas.interrupted.take(user):
            return False
        if not quotas.interrupted_bytes.take(user, self.size):
            quotas.interrupted.give_back(user)
            return False
        self._key = key
        self.positions = CommandIds()
        vhost.interrupted[key] = self
        ttl = USUAL_TTL if delivery.resume_ttl is None else min(delivery.resume_ttl, MOST_TTL)
        vhost.timed.set(self, now + ttl / 1000)
        return True

    def go_on(self) -> None:
        """Remove the message from the interrupted ones: its rest is to come."""
        user, _ = self._key
        del self._vhost.interrupted[self._key]
        self._vhost.quotas.interrupted.give_back(user)
        self._vhost.quotas.interrupted_bytes.give_back(user, self.size)
        self._vhost.timed.drop(self)

    def tick(self, now: float) -> None:
        """Drop the message: it has waited long enough."""
        self.go_on()
        self.take()


class Fragments:
    """The fragmented messages of one session of `user`, with at most `largest` bytes together."""

    def __init__(self, vhost: VirtualHost, user: str, largest: int) -> None:
        self._vhost = vhost
        self._user = user
        self._largest = largest
        self._open: dict[str, FragmentedMessage] = {}

    def add(self, destination: str, header: Header, body: bytes) -> FragmentedMessage:
        """Add a fragment to its message; return the message."""
        fragment = header.fragment
        is_first = fragment is None or fragment.first
        message = self._open.get(destination)
        if is_first:
            if message is not None:
                raise IllegalState(f"a message to '{destination}' before the last fragment of the one before it")
            self._check_count()
            message = self._open[destination] = FragmentedMessage(self._vhost, header)
        elif message is None:
            raise IllegalState(f"a fragment of a message to '{destination}' whose first has not come")
        self._check_size(len(body))
        if message.positions.ranges > MOST_RANGES:
            raise ResourceLimitExceeded(f"a message with {MOST_RANGES} other commands between its fragments")
        message.add(body)
        return message

    def finish(self, destination: str) -> bytes:
        """Return the body of the whole message after its last fragment."""
        return self._open.pop(destination).take()

    def resume(self, destination: str, resume_id: str) -> int:
        """Resume a message; return the number of its bytes that have been received, 0 if it cannot be resumed."""
        for message in self._open.values():
            delivery = message.header.delivery
            if delivery is not None and delivery.resume_id == resume_id:
                return message.size
        found = self._vhost.interrupted.get((self._user, resume_id))
        if not isinstance(found, FragmentedMessage) or destination in self._open:
            return 0
        self._check_count()
        self._check_size(found.size)
        found.go_on()
        self._open[destination] = found
        return found.size

    def _check_count(self) -> None:
        if len(self._open) >= MOST_OPEN:
            raise ResourceLimitExceeded(f"more than {MOST_OPEN} messages in fragments at a time")

    def _check_size(self, more: int) -> None:
        if sum(each.size for each in self._open.values()) + more > self._largest:
            raise ResourceLimitExceeded(f"messages in fragments of more than {self._largest} bytes")

    def end(self, now: float) -> None:
        """Keep the messages that may be resumed after the session ends; drop the others."""
        while self._open:
            _, message = self._open.popitem()
            if not message.keep(self._user, now):
                message.take()
