"""A command of AMQP 0-10 that declares, deletes, binds or subscribes, until the broker has answered it."""

from __future__ import annotations

from amqproxy.amqp010.commands import (
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    MessageCancel,
    MessageSubscribe,
    QueueDeclare,
    QueueDelete,
)
from amqproxy.amqp010.methods import Method as Amqp010Method
from amqproxy.amqp091.methods import Method
from amqproxy.conversion.method_views import method_view
from amqproxy.peer import CLIENT
from amqproxy.taps.topology.client_requests import ClientRequests, ObservedClient

OBSERVED_COMMANDS = (
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeBind,
    ExchangeUnbind,
    QueueDeclare,
    QueueDelete,
    MessageSubscribe,
    MessageCancel,
)
"""The commands of a client from which the topology follows."""


class AskedCommand:
    """A command that awaits its completion, as its counterpart of 0-9-1; what it holds counts for the `requests`.

    Either of `complete` and `drop` is called, once.
    """

    __slots__ = ("_channel", "_client", "_cost", "_request", "_requests")

    def __init__(
        self, requests: ClientRequests, client: ObservedClient, channel: int, request: Method, cost: int
    ) -> None:
        self._requests = requests
        self._client = client
        self._channel = channel
        self._request = request
        self._cost = cost

    @classmethod
    def of(
        cls, requests: ClientRequests, client: ObservedClient, channel: int, command: Amqp010Method, size: int
    ) -> AskedCommand | None:
        """What a client asks for with a command of `size` bytes; None where there is no room for it."""
        request = method_view(CLIENT, command)
        cost = None if request is None else requests.hold(size)
        return None if request is None or cost is None else cls(requests, client, channel, request, cost)

    def complete(self) -> None:
        """The broker has carried it out."""
        self.drop()
        self._requests.complete(self._client, self._channel, self._request)

    def drop(self) -> None:
        """The broker has refused it, or its session is over."""
        self._requests.drop(self._cost)
