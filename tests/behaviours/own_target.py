"""Our own broker as a target: embedded in a thread, where its model is the hand on its controls."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, TypeVar

import trio

from amqproxy.broker import definitions as definitions_json
from amqproxy.broker.broker import Broker
from amqproxy.broker.permissions import Permission
from amqproxy.broker.policies import make_policy
from amqproxy.broker.server import serve
from amqproxy.broker.time_of_day import current_time
from tests.behaviours.target import Target

Answer = TypeVar("Answer")

START_DEADLINE = 10.0


@cache
def is_there() -> bool:
    """Whether `amqproxy broker` exists."""
    asked = subprocess.run([sys.executable, "-m", "amqproxy", "broker", "--help"], capture_output=True)
    return asked.returncode == 0


class OwnTarget(Target):
    """A broker in memory, served by a thread of its own until `stop`."""

    def __init__(self, definitions: dict[str, Any]) -> None:
        self.broker = Broker()
        self.is_ready = threading.Event()
        self.thread = threading.Thread(target=trio.run, args=(self._serve,), name="broker")
        self.thread.start()
        if not self.is_ready.wait(START_DEADLINE):
            raise RuntimeError("the broker did not start")
        self.define(**definitions)

    async def _serve(self) -> None:
        self.token = trio.lowlevel.current_trio_token()
        with trio.CancelScope() as self.scope:
            async with serve(self.broker) as self.port:
                self.is_ready.set()
                await trio.sleep_forever()

    def _do(self, action: Callable[[float], Answer]) -> Answer:
        """In the broker's thread, between two things that it does; `action` is told the time."""
        return trio.from_thread.run_sync(lambda: action(current_time()), trio_token=self.token)

    def stop(self) -> None:
        self._do(lambda _: self.scope.cancel())
        self.thread.join()

    def define(self, **definitions: Any) -> None:
        self._do(lambda now: definitions_json.load(self.broker, definitions, now))

    def definitions(self) -> dict[str, Any]:
        return self._do(lambda _: definitions_json.export(self.broker))

    def forget(self, *, vhosts: Iterable[str] = (), users: Iterable[str] = ()) -> None:
        for vhost in vhosts:
            self._do(lambda now, vhost=vhost: self.broker.delete_vhost(vhost, now))  # type: ignore[misc]
        for user in users:
            self._do(lambda now, user=user: self.broker.delete_user(user, now))  # type: ignore[misc]

    def change_password(self, user: str, password: str) -> None:
        self._do(lambda _: self.broker.users[user].change_password(password))

    def set_permissions(self, vhost: str, user: str, configure: str, write: str, read: str) -> None:
        self._do(lambda _: self.broker.users[user].permit(vhost, Permission(configure, write, read)))

    def clear_permissions(self, vhost: str, user: str) -> None:
        self._do(lambda _: self.broker.users[user].permit(vhost, None))

    def set_policy(self, vhost: str, name: str, pattern: str, definition: dict[str, Any], priority: int = 0) -> None:
        policy = make_policy(name, pattern, definition, priority, "queues")
        self._do(lambda now: self.broker.vhosts[vhost].set_policy(policy, now))

    def clear_policy(self, vhost: str, name: str) -> None:
        self._do(lambda now: self.broker.vhosts[vhost].clear_policy(name, now))

    def set_vhost_limits(self, vhost: str, limits: dict[str, int]) -> None:
        self._do(lambda _: self.broker.vhosts[vhost].set_limits(limits))

    def set_user_limits(self, user: str, limits: dict[str, int]) -> None:
        self._do(lambda _: self.broker.users[user].set_limits(limits))

    def close_connections(self, vhost: str, reason: str) -> None:
        self._do(lambda now: self.broker.close_connections(reason, now, vhost))

    def trace(self, vhost: str, is_on: bool) -> None:
        self._do(lambda _: self.broker.vhosts[vhost].trace(is_on))

    def set_memory_alarm(self, is_on: bool) -> None:
        self._do(lambda now: self.broker.set_alarm("memory", is_on, now))
