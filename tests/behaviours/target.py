"""A broker that runs, and the hand on its controls: the one place that knows which broker it is.

Controls are rabbitmqctl's words ("add_user", "set_policy", …), for both brokers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.behaviours.client import Client, until
from tests.real.proxy import LISTENING
from tests.real.rabbitmq import RabbitMQ, script


class Target:
    """What the tests ask of a broker, whichever it is."""

    name: str
    port: int
    directory: Path
    """Where the tests may keep files that the broker is to read or write."""

    def control(self, *words: str) -> str:
        """Do what rabbitmqctl does when given these words; what it prints."""
        raise NotImplementedError

    def stop(self) -> None:
        """Nothing that the tests made is left."""
        raise NotImplementedError

    def connect(self, vhost: str, user: str = "guest", password: str = "guest", **options: Any) -> Client:
        client = Client(self.port)
        try:
            return client.open(vhost, user, password, **options)
        except BaseException:
            client.abandon()
            raise

    # --- definitions

    def define(self, **definitions: Any) -> None:
        """Import definitions, in the format of definitions.json: `vhosts=[{"name": "v"}], users=[…], …`."""
        file = self.directory / "import.json"
        file.write_text(json.dumps(definitions))
        self.control("import_definitions", str(file))

    def definitions(self) -> dict[str, Any]:
        """All that the broker exports."""
        file = self.directory / "export.json"
        file.unlink(missing_ok=True)
        self.control("export_definitions", str(file))
        return json.loads(file.read_text())  # type: ignore[no-any-return]

    # --- single settings

    def forget(self, *, vhosts: Iterable[str] = (), users: Iterable[str] = ()) -> None:
        """Delete these."""
        for vhost in vhosts:
            self.control("delete_vhost", vhost)
        for user in users:
            self.control("delete_user", user)

    def change_password(self, user: str, password: str) -> None:
        self.control("change_password", user, password)

    def set_permissions(self, vhost: str, user: str, configure: str, write: str, read: str) -> None:
        self.control("set_permissions", "-p", vhost, user, configure, write, read)

    def set_policy(self, vhost: str, name: str, pattern: str, definition: dict[str, Any], **options: str) -> None:
        """`options` are rabbitmqctl's: `priority="1"`, `apply_to="queues"`."""
        words = [f"--{option.replace('_', '-')}={value}" for option, value in options.items()]
        self.control("set_policy", "-p", vhost, *words, name, pattern, json.dumps(definition))

    def clear_policy(self, vhost: str, name: str) -> None:
        self.control("clear_policy", "-p", vhost, name)

    def set_vhost_limits(self, vhost: str, **limits: int) -> None:
        self.control("set_vhost_limits", "-p", vhost, json.dumps(_dashed(limits)))

    def set_user_limits(self, user: str, **limits: int) -> None:
        self.control("set_user_limits", user, json.dumps(_dashed(limits)))

    def close_connections(self, vhost: str, reason: str) -> None:
        self.control("close_all_connections", "--vhost", vhost, reason)

    # --- states that end with a block

    @contextmanager
    def tracing(self, vhost: str) -> Iterator[None]:
        """The firehose is on."""
        self.control("trace_on", "-p", vhost)
        yield
        self.control("trace_off", "-p", vhost)

    @contextmanager
    def memory_alarm(self) -> Iterator[None]:
        """The broker holds itself to be out of memory."""
        self.control("set_vm_memory_high_watermark", "0.000001")
        yield
        self.control("set_vm_memory_high_watermark", "0.4")


class RabbitMQTarget(Target):
    """The shared RabbitMQ node."""

    name = "rabbitmq"

    def __init__(self, node: RabbitMQ, definitions: dict[str, Any]) -> None:
        self.node = node
        self.port = node.port
        self.directory = node.directory
        self.vhosts = [vhost["name"] for vhost in definitions["vhosts"]]
        self.define(**definitions)

    def control(self, *words: str) -> str:
        return self.node.ctl(*words)

    def stop(self) -> None:
        """The node is as it was found."""
        self.forget(vhosts=self.vhosts)

    def forget(self, *, vhosts: Iterable[str] = (), users: Iterable[str] = ()) -> None:
        """All in one go, because rabbitmqctl takes its time to start."""
        deletions = [f'rabbit_vhost:delete(<<"{vhost}">>, <<"tests">>)' for vhost in vhosts]
        deletions += [f'rabbit_auth_backend_internal:delete_user(<<"{user}">>, <<"tests">>)' for user in users]
        self.control("eval", f"{', '.join(deletions)}.")

    @contextmanager
    def plugins(self, *names: str) -> Iterator[None]:
        """The node runs with these plugins."""
        for verb in ("enable", "disable"):
            if verb == "disable":
                yield
            subprocess.run(
                [script("rabbitmq-plugins"), "--quiet", verb, *names],
                env=self.node.environment,
                check=True,
                stdout=subprocess.DEVNULL,
            )


class OwnTarget(Target):
    """`amqproxy broker` as a process of its own."""

    name = "amqproxy"

    def __init__(self, directory: Path, definitions: dict[str, Any]) -> None:
        self.directory = directory
        self.output = directory / "broker.log"
        file = directory / "start.json"
        file.write_text(json.dumps(definitions))
        options = {"--listen": "127.0.0.1:0", "--data": str(directory / "data"), "--definitions": str(file)}
        command = [sys.executable, "-m", "amqproxy", "broker", *(word for pair in options.items() for word in pair)]
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            self.port = until(self._listening, "the broker to listen")
        except BaseException:
            self.stop()
            raise

    def _listening(self) -> int:
        log = self.output.read_text(errors="replace")
        if self.process.poll() is not None:
            raise RuntimeError(f"the broker ended with {self.process.returncode}\n{log}")
        found = LISTENING.search(log)
        return int(found[1]) if found else 0

    def control(self, *words: str) -> str:
        # The one hook that is still to be made: the broker's answer to rabbitmqctl.
        pytest.skip(f"our broker has no controls yet: {words[0]}")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def targets() -> list[str]:
    """The brokers there are: our own as soon as `amqproxy broker` exists. `BEHAVIOURS_OF` names the only one wanted."""
    if wanted := os.environ.get("BEHAVIOURS_OF"):
        return [wanted]
    asked = subprocess.run([sys.executable, "-m", "amqproxy", "broker", "--help"], capture_output=True)
    return ["rabbitmq", "amqproxy"] if asked.returncode == 0 else ["rabbitmq"]


def _dashed(limits: dict[str, int]) -> dict[str, int]:
    return {name.replace("_", "-"): value for name, value in limits.items()}
