"""Our own broker as a target: embedded in a thread, where its model is the hand on its controls."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from typing import Any

from amqproxy.broker import Broker, serve_in_thread
from amqproxy.broker.access.permissions import Permission
from amqproxy.broker.definitions import definitions_json as definitions_json
from amqproxy.broker.queues.policies import make_policy
from amqproxy.rabbitmq.profile import Profile
from tests.behaviours.target import Target


class OwnTarget(Target):
    """A broker in memory, served by a thread of its own until `stop`."""

    def __init__(self, definitions: dict[str, Any], profile: Profile) -> None:
        self.profile = profile
        self.stack = ExitStack()
        self.background = self.stack.enter_context(serve_in_thread(Broker(profile=profile)))
        self.port = self.background.port
        self.define(**definitions)

    def stop(self) -> None:
        self.stack.close()

    def define(self, **definitions: Any) -> None:
        self.background.do(lambda broker, now: definitions_json.load(broker, definitions, now))

    def definitions(self) -> dict[str, Any]:
        return self.background.do(lambda broker, _: definitions_json.export(broker))

    def forget(self, *, vhosts: Iterable[str] = (), users: Iterable[str] = ()) -> None:
        for vhost in vhosts:
            self.background.do(partial(_delete_vhost, vhost))
        for user in users:
            self.background.do(partial(_delete_user, user))

    def change_password(self, user: str, password: str) -> None:
        self.background.do(lambda broker, _: broker.users[user].change_password(password))

    def set_permissions(self, vhost: str, user: str, configure: str, write: str, read: str) -> None:
        self.background.do(lambda broker, _: broker.users[user].permit(vhost, Permission(configure, write, read)))

    def clear_permissions(self, vhost: str, user: str) -> None:
        self.background.do(lambda broker, _: broker.users[user].permit(vhost, None))

    def set_policy(self, vhost: str, name: str, pattern: str, definition: dict[str, Any], priority: int = 0) -> None:
        policy = make_policy(name, pattern, definition, priority, "queues")
        self.background.do(lambda broker, now: broker.vhosts[vhost].set_policy(policy, now))

    def clear_policy(self, vhost: str, name: str) -> None:
        self.background.do(lambda broker, now: broker.vhosts[vhost].clear_policy(name, now))

    def set_vhost_limits(self, vhost: str, limits: dict[str, int]) -> None:
        self.background.do(lambda broker, _: broker.vhosts[vhost].set_limits(limits))

    def set_user_limits(self, user: str, limits: dict[str, int]) -> None:
        self.background.do(lambda broker, _: broker.users[user].set_limits(limits))

    def close_connections(self, vhost: str, reason: str) -> None:
        self.background.do(lambda broker, now: broker.close_connections(reason, now, vhost))

    def trace(self, vhost: str, is_on: bool) -> None:
        self.background.do(lambda broker, _: broker.vhosts[vhost].trace(is_on))

    def set_memory_alarm(self, is_on: bool) -> None:
        self.background.do(lambda broker, now: broker.set_alarm("memory", is_on, now))


def _delete_vhost(name: str, broker: Broker, now: float) -> None:
    broker.delete_vhost(name, now)


def _delete_user(name: str, broker: Broker, now: float) -> None:
    broker.delete_user(name, now)
