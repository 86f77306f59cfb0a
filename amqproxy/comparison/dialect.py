"""Interface between a comparison and the protocols of the captures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from amqproxy.comparison.made_up_names import BrokerNames, ConsumerNames


class ComparisonDialect(Protocol):
    """Interface to one protocol, for the comparison of captures.

    To add a protocol: put a dialect into a folder of its own, and list it in `dialects`. The trace of `amqproxy.taps`
    must know the protocol, too.
    """

    @property
    def name(self) -> str:
        """The name of the protocol, as decoded captures have it."""

    @property
    def frame(self) -> type[Any]:
        """The class of its frames."""

    @property
    def method(self) -> type[Any] | tuple[type[Any], ...]:
        """The base classes of its methods, as the trace has them."""

    def is_heartbeat(self, frame: Any) -> bool:
        """Return whether a frame is a heartbeat, which does not count."""

    def method_of(self, frame: Any) -> Any:
        """Return the method in a frame; `None` if it is malformed, spans several frames, or is absent."""

    def is_request(self, method: Any) -> bool:
        """Return whether a method is a request, which the trace reports with its answer."""

    def shows_client(self, frame: Any) -> bool:
        """Return whether a frame belongs to the connection itself, and so may identify the client."""

    def learn_names(
        self, method: Any, channel: int, names: BrokerNames, consumers_of: Callable[[int], ConsumerNames]
    ) -> None:
        """Learn the names that a client has generated, or chosen for a consumer, before the trace reports the method.

        `consumers_of` returns the names of the consumers of a channel.
        """

    def normalise(self, method: Any, fields: dict[str, Any], consumers: ConsumerNames) -> None:
        """Normalise the fields of a method, in JSON's types and in place, so that two runs have the same."""
