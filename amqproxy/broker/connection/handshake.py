"""What a client must get right before its connection is open: protocol, login and virtual host."""

from __future__ import annotations

from amqproxy.amqp091.errors import NotAllowed
from amqproxy.amqp091.methods import ConnectionStart
from amqproxy.amqp091.protocol_header import HEADER, NAME, recognise
from amqproxy.broker.access import sasl
from amqproxy.broker.access.limits import limit
from amqproxy.broker.access.users import User
from amqproxy.broker.broker import Broker
from amqproxy.broker.vhost import VirtualHost

VERSIONS = {NAME: (0, 9), "0-9": (0, 9), "0-8": (8, 0), "0-9-1 (Qpid)": (8, 0)}
"""The protocols whose clients RabbitMQ accepts, and the version that it sends them."""


class Handshake:
    """Of one connection: it checks what the client sends, and changes nothing but itself.

    `user_name` is the user that the client last tried to log in as, "" where it named none.
    """

    __slots__ = ("_broker", "_certificate_name", "_is_loopback", "_received", "user_name")

    def __init__(self, broker: Broker, *, is_loopback: bool, certificate_name: str | None) -> None:
        self._broker = broker
        self._is_loopback = is_loopback
        self._certificate_name = certificate_name
        self._received = b""
        self.user_name = ""

    @property
    def has_begun(self) -> bool:
        """Has the client sent anything?"""
        return bool(self._received)

    def protocol(self, data: bytes) -> str | None:
        """The protocol that the client speaks; None as long as its header is not whole."""
        self._received += data
        return recognise(self._received)

    @property
    def behind_header(self) -> bytes:
        """What came with the protocol header, and is behind it."""
        return self._received[len(HEADER) :]

    def start(self, protocol: str) -> ConnectionStart:
        """The answer to the header of one of `VERSIONS`."""
        major, minor = VERSIONS[protocol]
        mechanisms = sasl.offered(self._broker.mechanisms, self._certificate_name)
        return ConnectionStart(major, minor, self._broker.properties, mechanisms, b"en_US")

    @property
    def mechanisms(self) -> list[str]:
        """The mechanisms of SASL that the client may choose from."""
        return sasl.offered(self._broker.mechanisms, self._certificate_name).decode().split()

    def log_in(self, mechanism: str, response: bytes) -> User:
        """The user that the client logs in as. `LoginRefused`; a `ProtocolError` where the mechanism is not offered."""
        broker = self._broker
        sasl.check(mechanism, broker.mechanisms, self._certificate_name)
        if mechanism == sasl.EXTERNAL:
            self.user_name = self._certificate_name or ""
            return broker.log_in_by_certificate(self.user_name, is_loopback=self._is_loopback)
        self.user_name, password = sasl.credentials(mechanism, response)
        return broker.log_in(self.user_name, password, is_loopback=self._is_loopback)

    def enter(self, name: str, user: User) -> VirtualHost:
        """The virtual host, if the user may use it and there is room for a further connection; else 530."""
        connections = self._broker.connections
        vhost = self._broker.vhosts.get(name)
        if vhost is None:
            raise NotAllowed(f"vhost {name} not found")
        refused = f"access to vhost '{name}' refused for user '{user.name}'"
        most = limit(vhost.limits, "max-connections")
        if most is not None and sum(each.vhost is vhost for each in connections) >= most:
            raise NotAllowed(f"{refused}: connection limit ({most}) is reached")
        most = limit(user.limits, "max-connections")
        if most is not None and sum(each.is_of(user) and each.vhost is not None for each in connections) >= most:
            raise NotAllowed(f"connection refused for user '{user.name}': user connection limit ({most}) is reached")
        if name not in user.permissions:
            raise NotAllowed(refused)
        return vhost
