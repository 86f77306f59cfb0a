"""The broker as a whole: its virtual hosts and users, and what is the same for every connection."""

from __future__ import annotations

import hmac

from amqproxy.amqp091.wire import Table
from amqproxy.broker.vhost import VirtualHost


class User:
    """Somebody who may log in. `only_from_loopback` is RabbitMQ's rule for guest."""

    def __init__(self, name: str, password: str, *, only_from_loopback: bool = False) -> None:
        self.name = name
        self.only_from_loopback = only_from_loopback
        self._password = password

    def accepts(self, password: str) -> bool:
        return hmac.compare_digest(self._password.encode(), password.encode())


class Broker:
    """Everything that a client can reach. `channel_max`, `frame_max` and `heartbeat` (seconds) are what tune offers."""

    def __init__(
        self, version: str = "", *, channel_max: int = 2047, frame_max: int = 131_072, heartbeat: int = 60
    ) -> None:
        self.channel_max = channel_max
        self.frame_max = frame_max
        self.heartbeat = heartbeat
        self.vhosts: dict[str, VirtualHost] = {"/": VirtualHost("/")}
        self.users = {"guest": User("guest", "guest", only_from_loopback=True)}
        self.properties = Table(
            {
                "capabilities": dict.fromkeys(CAPABILITIES, True),
                "product": "amqproxy",
                "version": version,
                "platform": "Python",
            }
        )

    def log_in(self, name: str, password: str, *, is_loopback: bool) -> User | None:
        """The user, if the password is right and it may come from there."""
        user = self.users.get(name)
        if user is None or not user.accepts(password) or (user.only_from_loopback and not is_loopback):
            return None
        return user

    def next_deadline(self) -> float:
        """When `tick` will next have something to do."""
        return min(
            (queue.next_deadline for vhost in self.vhosts.values() for queue in vhost.queues.values()),
            default=float("inf"),
        )

    def tick(self, now: float) -> None:
        """Do what is due: let messages and queues expire."""
        for vhost in self.vhosts.values():
            for queue in list(vhost.queues.values()):
                if queue.next_deadline <= now:
                    queue.expire(now)
                    if queue.expires_at <= now:
                        vhost.remove_queue(queue)


CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)
