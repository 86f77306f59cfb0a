"""An unanswered 0-10 command that declares, deletes, binds or subscribes."""

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
from amqproxy.conversion.amqp010.method_views import method_view
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
"""The client's commands from which the topology follows."""


class AskedCommand:
    """A command that awaits its completion, as its 0-9-1 counterpart; its memory is charged to `requests`.

    Exactly one of `complete` and `drop` is called, once.
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
        """Return the request of a command of `size` bytes; `None` without a counterpart, or beyond the budget."""
        request = method_view(CLIENT, command)
        cost = None if request is None else requests.hold(size)
        return None if request is None or cost is None else cls(requests, client, channel, request, cost)

    def complete(self) -> None:
        """Apply the request: the broker has carried it out."""
        self.drop()
        self._requests.complete(self._client, self._channel, self._request)

    def drop(self) -> None:
        """Release the request: the broker has refused it, or its session has ended."""
        self._requests.drop(self._cost)
