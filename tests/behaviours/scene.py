"""Names that no other test uses, and connections that end with their test."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from typing import Any

from amqproxy.rabbitmq.profile import Profile
from tests.behaviours.client import Channel, Client
from tests.behaviours.target import Target

VHOST = "behaviours"
"""The virtual host that is the suite's own, and gone after it."""

_numbers = itertools.count(1)


class Scene:
    """One test's part of the broker."""

    def __init__(self, broker: Target, stack: ExitStack, vhost: str = VHOST) -> None:
        self.broker = broker
        self.stack = stack
        self.vhost = vhost
        self.number = next(_numbers)
        self.ch = self.channel()
        """A channel, on a connection of its own."""

    @property
    def profile(self) -> Profile:
        """The row of the table of versions by which the broker has to answer."""
        return self.broker.profile

    def name(self, stem: str = "q") -> str:
        """`stem` made this test's own."""
        return f"{stem}-{self.number}"

    def client(self, **options: Any) -> Client:
        """A further connection."""
        client = self.broker.connect(options.pop("vhost", self.vhost), **options)
        self.stack.callback(client.close)
        return client

    def bare(self) -> Client:
        """A socket that has sent nothing yet."""
        client = Client(self.broker.port)
        self.stack.callback(client.abandon)
        return client

    def channel(self, **options: Any) -> Channel:
        """A channel on a further connection."""
        return self.client(**options).channel()

    def beside(self) -> Channel:
        """A further channel on the first connection."""
        return self.ch.client.channel()

    def __getattr__(self, stem: str) -> str:
        """`scene.q`, `scene.x`: short names of the test's own."""
        if len(stem) > 3:
            raise AttributeError(stem)
        return self.name(stem)

    def fill(self, expected: str) -> str:
        """`expected` with its placeholders filled: names by their stems, and {queue} and {exchange} for `q` and `x` as
        RabbitMQ speaks of them."""
        profile = self.profile
        expected = expected.replace(
            "{type_fault}",
            "connection 503 exchange.declare COMMAND_INVALID"
            if profile.exchange_type_fault == "connection 503"
            else "channel 406 exchange.declare PRECONDITION_FAILED",
        )
        expected = expected.replace("{unset}", profile.prefetch_text).replace("{stream}", profile.stream_text)
        expected = expected.replace(
            "{quorum}",
            "'quorum' but current is 'classic'"
            if profile.shows_queue_type
            else "the value 'quorum' of type 'longstr' but current is none",
        )
        expected = expected.replace("{queue}", "queue '{q}' in vhost '{vhost}'")
        expected = expected.replace("{exchange}", "exchange '{x}' in vhost '{vhost}'")
        for stem in ("q", "q2", "x", "x2"):
            expected = expected.replace(f"{{{stem}}}", self.name(stem))
        return expected.replace("{vhost}", self.vhost)
