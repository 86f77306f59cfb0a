"""A proxy in front of a group of brokers, as a separate process."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingConnection

from amqproxy.control import ControlClient
from tests.real.proxy import Program, command


class Fleet(Program):
    """A proxy in front of a group, whose members take clients in their order; and what its control socket says."""

    def __init__(
        self,
        directory: Path,
        *ports: int,
        members: list[dict[str, Any]] | None = None,
        within: Sequence[str] = (),
        limits: dict[str, Any] | None = None,
        record: dict[str, Any] | None = None,
        **group: Any,
    ) -> None:
        """Start it; `members` replace those at the ports, and `within` is a command that runs it.

        `limits` and `record` are the proxy's own.
        """
        self.socket = directory / "control.sock"
        if members is None:
            members = [{"address": f"127.0.0.1:{port}", "priority": place} for place, port in enumerate(ports)]
        config: dict[str, Any] = {
            "listen": [{"address": "127.0.0.1:0"}],
            "upstream": "rabbit",
            "upstreams": {"rabbit": {"members": members, "connect_timeout": 30.0, "slow_start": 0.1, **group}},
            "control": {"path": str(self.socket)},
            "limits": limits or {},
        }
        if record is not None:
            config["record"] = record
        file = directory / "fleet.yaml"
        file.write_text(json.dumps(config))
        super().__init__(directory / "fleet.log", *within, *command(), "run", "--config", str(file))

    def members(self) -> list[dict[str, Any]]:
        with ControlClient(self.socket) as client:
            return list(client.ask("upstreams")["upstreams"])

    def states(self) -> list[str]:
        return [each["state"] for each in self.members()]

    def connections(self) -> list[int]:
        return [each["connections"] for each in self.members()]

    def client(self, password: str = "guest", **options: Any) -> BlockingConnection:
        login = pika.PlainCredentials("guest", password)
        options.setdefault("heartbeat", 30)
        return BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port, credentials=login, **options))


StartFleet = Callable[..., Fleet]
