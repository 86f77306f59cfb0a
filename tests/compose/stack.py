"""What compose.yaml names, as processes of this machine, where there is no Docker.

RabbitMQ and Prometheus are Debian's, amqproxy is this one. Commands, configs and rules are those of compose.yaml: only
HOST:PORT of a service becomes a free port of the loopback interface, and a path its file here. Prometheus looks every
half second, and alerts fire after two (`for`), as docs/alerts.md describes for trying them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.compose.project import SERVICES, file_at, mounted
from tests.monitoring.prometheus import PrometheusServer
from tests.real.poll import until
from tests.real.ports import free_port
from tests.real.proxy import command
from tests.real.rabbitmq import RabbitMQ

QUICK = [(re.compile(r"(_interval:) 5s"), r"\1 500ms"), (re.compile(r"^( +for:) \w+$", re.MULTILINE), r"\1 2s")]


class Stack:
    """The services, each started by its method; `kill` ends all of them."""

    def __init__(self, directory: Path, rabbitmq: RabbitMQ) -> None:
        """RabbitMQ is not started yet, and gets the plugins of compose.yaml."""
        self._directory = directory
        self.rabbitmq = rabbitmq
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._files: dict[str, Path] = {}
        self._ports: dict[tuple[str, int], int] = {}

    def port(self, service: str, port: int) -> int:
        """The loopback port that stands for a port of a service."""
        if (service, port) == ("rabbitmq", 5672):
            return self.rabbitmq.port
        return self._ports.setdefault((service, port), free_port())

    def start_rabbitmq(self) -> None:
        self.rabbitmq.configure()
        plugins = file_at("rabbitmq", "/etc/rabbitmq/enabled_plugins").read_text()
        (self.rabbitmq.directory / "enabled_plugins").write_text(plugins)
        with (self.rabbitmq.directory / "rabbitmq.conf").open("a") as file:
            file.write(f"prometheus.tcp.port = {self.port('rabbitmq', 15692)}\n")
            file.write(f"management.tcp.port = {self.port('rabbitmq', 15672)}\n")
        self.rabbitmq.start()

    def start(self, service: str) -> None:
        """One of our own: its image's entry point is `amqproxy`."""
        values = SERVICES[service].get("environment", {})
        with self.log(service).open("ab") as log:
            self._processes[service] = subprocess.Popen(
                [*command(), *(self._here(service, word) for word in SERVICES[service]["command"])],
                env=os.environ | values,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def start_prometheus(self) -> PrometheusServer:
        words = [self._here("prometheus", word) for word in SERVICES["prometheus"]["command"]]
        return PrometheusServer(self._directory, self.port("prometheus", 9090), *words)

    def is_healthy(self, service: str) -> bool:
        """Whether the health check of one of our own succeeds."""
        kind, program, *words = SERVICES[service]["healthcheck"]["test"]
        assert (kind, program) == ("CMD", "python")
        words = [self._here(service, word) for word in words]
        return subprocess.run([sys.executable, *words], capture_output=True, check=False).returncode == 0

    def wait_for(self, service: str) -> None:
        def is_up() -> bool:
            if self._processes[service].poll() is not None:
                raise RuntimeError(f"{service} ended\n{self.log(service).read_text()}")
            return self.is_healthy(service)

        until(is_up, f"{service} to be healthy", pause=0.2)

    def end(self, service: str) -> int:
        """SIGTERM, as `docker compose stop` sends it; the exit code."""
        self._processes[service].terminate()
        return self._processes[service].wait(60)

    def log(self, service: str) -> Path:
        return self._directory / f"{service}.log"

    def kill(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
        self.rabbitmq.stop()

    def _here(self, service: str, text: str) -> str:
        """The text, with addresses and paths as they are on this machine."""
        for there in mounted(service):
            text = re.sub(rf"{there}[\w./-]*", lambda found: str(self._file(service, found[0])), text)
        text = text.replace("/run/amqproxy/", f"{self._directory}/")
        text = re.sub(r"=/prometheus$", f"={self._directory / 'tsdb'}", text)
        names = "|".join((*SERVICES, "localhost", r"0\.0\.0\.0", r"127\.0\.0\.1"))

        def address(found: re.Match[str]) -> str:
            name = found[1] if found[1] in SERVICES else service
            return f"127.0.0.1:{self.port(name, int(found[2]))}"

        return re.sub(rf"\b({names}):(\d+)\b", address, text)

    def _file(self, service: str, path: str) -> Path:
        """A file that a service has, as it is here: one of text is a copy, which stays once it was made."""
        here = file_at(service, path)
        if here.suffix not in (".yaml", ".yml"):
            return here
        if path not in self._files:
            file = self._files[path] = self._directory / f"{service}-{here.name}"
            text = self._here(service, here.read_text())
            for found, quick in QUICK:
                text = found.sub(quick, text)
            file.write_text(text)
        return self._files[path]
