"""RabbitMQ as a target: rabbitmqctl is the hand on its controls."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from amqproxy.rabbitmq.profile import Profile
from tests.behaviours.target import Target
from tests.real.rabbitmq import RabbitMQ


class RabbitMQTarget(Target):
    """The shared RabbitMQ node."""

    def __init__(self, node: RabbitMQ, definitions: dict[str, Any], profile: Profile) -> None:
        self.profile = profile
        self.node = node
        self.port = node.port
        self.vhosts = [vhost["name"] for vhost in definitions["vhosts"]]
        self.define(**definitions)

    def stop(self) -> None:
        """The node is as it was found."""
        self.forget(vhosts=self.vhosts)

    def define(self, **definitions: Any) -> None:
        file = self.node.directory / "import.json"
        file.write_text(json.dumps(definitions))
        self.node.ctl("import_definitions", str(file))

    def definitions(self) -> dict[str, Any]:
        file = self.node.directory / "export.json"
        file.unlink(missing_ok=True)
        self.node.ctl("export_definitions", str(file))
        return json.loads(file.read_text())  # type: ignore[no-any-return]

    def forget(self, *, vhosts: Iterable[str] = (), users: Iterable[str] = ()) -> None:
        """All in one go, because rabbitmqctl takes its time to start."""
        deletions = [f'rabbit_vhost:delete(<<"{vhost}">>, <<"tests">>)' for vhost in vhosts]
        deletions += [f'rabbit_auth_backend_internal:delete_user(<<"{user}">>, <<"tests">>)' for user in users]
        self.node.ctl("eval", f"{', '.join(deletions)}.")

    def change_password(self, user: str, password: str) -> None:
        self.node.ctl("change_password", user, password)

    def set_permissions(self, vhost: str, user: str, configure: str, write: str, read: str) -> None:
        self.node.ctl("set_permissions", "-p", vhost, user, configure, write, read)

    def clear_permissions(self, vhost: str, user: str) -> None:
        self.node.ctl("clear_permissions", "-p", vhost, user)

    def set_policy(self, vhost: str, name: str, pattern: str, definition: dict[str, Any], priority: int = 0) -> None:
        options = ["-p", vhost, "--apply-to", "queues", "--priority", str(priority)]
        self.node.ctl("set_policy", *options, name, pattern, json.dumps(definition))

    def clear_policy(self, vhost: str, name: str) -> None:
        self.node.ctl("clear_policy", "-p", vhost, name)

    def set_vhost_limits(self, vhost: str, limits: dict[str, int]) -> None:
        self.node.ctl("set_vhost_limits", "-p", vhost, json.dumps(limits))

    def set_user_limits(self, user: str, limits: dict[str, int]) -> None:
        self.node.ctl("set_user_limits", user, json.dumps(limits))

    def close_connections(self, vhost: str, reason: str) -> None:
        self.node.ctl("close_all_connections", "--vhost", vhost, reason)

    def trace(self, vhost: str, is_on: bool) -> None:
        self.node.ctl("trace_on" if is_on else "trace_off", "-p", vhost)

    def set_memory_alarm(self, is_on: bool) -> None:
        self.node.ctl("set_vm_memory_high_watermark", "0.000001" if is_on else "0.4")

    @contextmanager
    def plugins(self, *names: str) -> Iterator[None]:
        command = [self.node.installation.script("rabbitmq-plugins"), "--quiet"]
        subprocess.run([*command, "enable", *names], env=self.node.environment, check=True, stdout=subprocess.DEVNULL)
        yield
        subprocess.run([*command, "disable", *names], env=self.node.environment, check=True, stdout=subprocess.DEVNULL)
