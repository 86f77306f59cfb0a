"""The user on whose behalf the management API changes a broker."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from amqproxy.amqp091.errors import AccessRefused
from amqproxy.amqp091.wire import Table
from amqproxy.broker.access.users import User
from amqproxy.broker.amqp091.argument_checks import check_arguments
from amqproxy.broker.broker import Broker
from amqproxy.broker.definitions.definitions_json import arguments_of
from amqproxy.broker.vhost import VirtualHost
from amqproxy.control.request_error import RequestError


class Unfinished(Protocol):
    """The rest of a change, which later turns of the loop do."""

    is_done: bool
    on_done: Callable[[], None]

    def check(self) -> None:
        """Raise `RequestError` if the work, which is done, has failed."""


class Actor(NamedTuple):
    """A user, the broker, and the time in seconds of the broker's clock.

    A change may leave work to later turns, in `unfinished`; if that is None, all of it is done at once.
    """

    broker: Broker
    user: User
    now: float
    unfinished: list[Unfinished] | None = None

    def vhost(self, name: str) -> VirtualHost:
        """Return a virtual host; `RequestError` with the name `no-vhost` without one."""
        found = self.broker.vhosts.get(name)
        if found is None:
            raise RequestError("no-vhost", f"there is no virtual host {name!r}")
        return found

    def other(self, name: str) -> User:
        """Return another user; `RequestError` with the name `no-user` without one."""
        found = self.broker.users.get(name)
        if found is None:
            raise RequestError("no-user", f"there is no user {name!r}")
        return found

    def check(self, vhost: VirtualHost, operation: str, kind: str, name: str) -> None:
        """Raise 403 unless the user's permissions allow the operation, as for an AMQP client."""
        self.user.check(vhost.name, operation, kind, name)

    def table(self, what: str, given: Mapping[str, Any]) -> Table:
        """Return an argument table; raise `RequestError` or a `ProtocolError` for one that no client could send."""
        self.check_size(what, given)
        try:
            found = arguments_of(given)
        except struct.error:
            raise RequestError("invalid", f"{what}: an integer of more than 64 bits") from None
        self._check_fits(what, len(found.octets))
        check_arguments(found)
        return found

    def check_size(self, what: str, given: Mapping[str, Any]) -> None:
        """Raise `RequestError` for an object whose JSON is larger than a frame: its work is done in one turn."""
        self._check_fits(what, len(msgspec.json.encode(given)))

    def _check_fits(self, what: str, size: int) -> None:
        most = self.broker.frame_max
        if 0 < most < size:
            raise RequestError("invalid", f"{what}: {size} bytes, and {most} are the most")


def check_not_default(exchange: str) -> None:
    """Raise 403 for the default exchange, to which clients can only publish."""
    if not exchange:
        raise AccessRefused("operation not permitted on the default exchange")
