"""Connections that get each new credential of a source."""

from __future__ import annotations

from collections.abc import Callable

from amqproxy.process.supervision import guarded
from amqproxy.proxy.logins.credential import Credential

Renewed = Callable[[Credential], None]


class Successors:
    """Receivers of a source's next credentials."""

    def __init__(self) -> None:
        self._receivers: dict[int, Renewed] = {}
        self._next = 0

    def subscribe(self, renewed: Renewed) -> Callable[[], None]:
        """Call `renewed` with each next credential, until the returned function is called."""
        number = self._next
        self._next += 1
        self._receivers[number] = renewed

        def unsubscribe() -> None:
            self._receivers.pop(number, None)

        return unsubscribe

    def publish(self, credential: Credential) -> None:
        """Pass a credential to all receivers; one that fails harms no other."""
        for each in list(self._receivers.values()):
            guarded("token not passed on", each, credential)
