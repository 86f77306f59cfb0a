"""A broker that runs, and the hand on its controls: the one place where the two brokers differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from amqproxy.rabbitmq.profile import Profile
from tests.behaviours.client import Client


class Target:
    """Operations that the tests need of any broker."""

    port: int
    profile: Profile
    """The RabbitMQ version that the broker is, or answers as."""

    def connect(self, vhost: str, user: str = "guest", password: str = "guest", **options: Any) -> Client:
        client = Client(self.port)
        try:
            return client.open(vhost, user, password, **options)
        except BaseException:
            client.abandon()
            raise

    def stop(self) -> None:
        """Nothing that the tests made is left."""
        raise NotImplementedError

    # --- definitions

    def define(self, **definitions: Any) -> None:
        """Import definitions, in the format of definitions.json: `vhosts=[{"name": "v"}], users=[…], …`."""
        raise NotImplementedError

    def definitions(self) -> dict[str, Any]:
        """All that the broker exports."""
        raise NotImplementedError

    def forget(self, *, vhosts: Iterable[str] = (), users: Iterable[str] = ()) -> None:
        """Delete these."""
        raise NotImplementedError

    # --- single settings

    def change_password(self, user: str, password: str) -> None:
        raise NotImplementedError

    def set_permissions(self, vhost: str, user: str, configure: str, write: str, read: str) -> None:
        raise NotImplementedError

    def clear_permissions(self, vhost: str, user: str) -> None:
        raise NotImplementedError

    def set_policy(self, vhost: str, name: str, pattern: str, definition: dict[str, Any], priority: int = 0) -> None:
        """A policy for queues."""
        raise NotImplementedError

    def clear_policy(self, vhost: str, name: str) -> None:
        raise NotImplementedError

    def set_vhost_limits(self, vhost: str, limits: dict[str, int]) -> None:
        raise NotImplementedError

    def set_user_limits(self, user: str, limits: dict[str, int]) -> None:
        raise NotImplementedError

    def close_connections(self, vhost: str, reason: str) -> None:
        """As an operator does."""
        raise NotImplementedError

    def trace(self, vhost: str, is_on: bool) -> None:
        """The firehose."""
        raise NotImplementedError

    def set_memory_alarm(self, is_on: bool) -> None:
        """The broker holds itself to be out of memory."""
        raise NotImplementedError

    @contextmanager
    def plugins(self, *names: str) -> Iterator[None]:
        """Enable these plugins of RabbitMQ for the duration of the block."""
        yield
