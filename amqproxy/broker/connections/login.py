"""Login and virtual host checks before a client's connection is open, for both protocols."""

from __future__ import annotations

from amqproxy.amqp091.errors import NotAllowed
from amqproxy.broker.access import sasl
from amqproxy.broker.access.limits import limit
from amqproxy.broker.access.users import LoginRefused, User
from amqproxy.broker.broker import Broker
from amqproxy.broker.vhost import VirtualHost


class Login:
    """The login of one connection: checks the client's credentials and changes only its own state.

    `user_name` is the user name of the client's last login attempt, "" if it sent none. A client within this process
    may be given its `user`: what it sends to log in is ignored.
    """

    __slots__ = ("_broker", "_certificate_name", "_is_loopback", "_user", "user_name")

    def __init__(
        self, broker: Broker, *, is_loopback: bool, certificate_name: str | None, user: User | None = None
    ) -> None:
        self._broker = broker
        self._is_loopback = is_loopback
        self._certificate_name = certificate_name
        self._user = user
        self.user_name = ""

    @property
    def mechanisms(self) -> bytes:
        """The SASL mechanisms that the client may choose from, separated by spaces."""
        return sasl.offered(self._broker.mechanisms, self._certificate_name)

    def log_in(self, mechanism: str, response: bytes) -> User:
        """Return the user that logs in; raise `LoginRefused`, or a `ProtocolError` if the mechanism is not offered."""
        broker = self._broker
        if self._user is not None:
            self.user_name = self._user.name
            return self._user
        sasl.check(mechanism, broker.mechanisms, self._certificate_name)
        if mechanism == sasl.EXTERNAL:
            self.user_name = self._certificate_name or ""
            return broker.log_in_by_certificate(self.user_name, is_loopback=self._is_loopback)
        self.user_name, password = sasl.credentials(mechanism, response)
        return broker.log_in(self.user_name, password, is_loopback=self._is_loopback)

    def renewed(self, user: User, secret: str) -> None:
        """Renew the login of a user by its new secret; raise 530 if a token is refused, or is another user's.

        As in RabbitMQ, nothing is done about the new password of a user who has logged in by password.
        """
        if user.is_internal or self._broker.user_of_token is None:
            return
        try:
            user.renew(self._broker.user_of_token(secret))
        except LoginRefused as error:
            self._broker.events.log("warning", "login not renewed", user=user.name, reason=str(error))
            raise NotAllowed("New secret was refused by one of the backends") from None

    def enter(self, name: str, user: User) -> VirtualHost:
        """Return the virtual host; raise 530 if the user may not use it or a connection limit is reached."""
        connections = self._broker.connections
        vhost = self._broker.vhosts.get(name)
        if vhost is None:
            raise NotAllowed(f"vhost {name} not found")
        refused = f"access to vhost '{name}' refused for user '{user.name}'"
        most = limit(vhost.limits, "max-connections")
        if most is not None and sum(each.vhost is vhost for each in connections) >= most:
            raise NotAllowed(f"{refused}: connection limit ({most}) is reached")
        most = limit(self._broker.limits_of(user), "max-connections")
        count = 0 if most is None else sum(each.is_named(user.name) and each.vhost is not None for each in connections)
        if most is not None and count >= most:
            raise NotAllowed(f"connection refused for user '{user.name}': user connection limit ({most}) is reached")
        if not user.may_enter(name):
            raise NotAllowed(refused)
        return vhost
