"""The user on whose behalf the management API changes a broker."""

from __future__ import annotations

from typing import NamedTuple

from amqproxy.amqp091.errors import AccessRefused
from amqproxy.broker.access.users import User
from amqproxy.broker.broker import Broker
from amqproxy.broker.vhost import VirtualHost
from amqproxy.control.request_error import RequestError


class Actor(NamedTuple):
    """A user, the broker, and the time in seconds of the broker's clock."""

    broker: Broker
    user: User
    now: float

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


def check_not_default(exchange: str) -> None:
    """Raise 403 for the default exchange, to which clients can only publish."""
    if not exchange:
        raise AccessRefused("operation not permitted on the default exchange")
