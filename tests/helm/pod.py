"""A pod of the chart as processes of this machine: what a kubelet does with it, where there is no cluster.

Ports of containers become free ports of the loopback interface, mounted directories become directories of the test,
and images are what is installed here. All else is as it was rendered: arguments, config, probes, hooks, grace period.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import yaml

from tests.helm.chart import Object
from tests.real.poll import until
from tests.real.ports import free_port
from tests.real.proxy import command

MINIMUM_GRACE = 2.0
"""Seconds that a kubelet leaves a container between SIGTERM and SIGKILL, however long the hooks before took."""

IMAGES = {"ghcr.io/amqproxy/amqproxy": command(), "python": [sys.executable]}
"""What starts in a container of an image that names no command."""


class Ended(msgspec.Struct, frozen=True):
    """How a container ended, and how many seconds after the pod was deleted."""

    code: int
    after: float
    is_killed: bool


class Pod:
    """One pod, from its first container on; `delete` ends it."""

    def __init__(self, directory: Path, workload: Object, config: Object, hosts: dict[str, str]) -> None:
        """`hosts` has the addresses, HOST:PORT, under which the pod finds others; `config` is the chart's ConfigMap."""
        self._directory = directory
        self._config = config
        self._hosts = hosts
        self._spec: Object = workload["spec"]["template"]["spec"]
        sidecars = [each for each in self._spec.get("initContainers", []) if each.get("restartPolicy") == "Always"]
        self._is_sidecar = {each["name"] for each in sidecars}
        self._containers: list[Object] = [*sidecars, *self._spec["containers"]]
        ports = [port for each in self._containers for port in each.get("ports", [])]
        self._ports = {port["containerPort"]: free_port() for port in ports}
        self._names = {port["name"]: port["containerPort"] for port in ports}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.grace: int = self._spec["terminationGracePeriodSeconds"]
        for container in self._containers:
            self._start(container)
            if "startupProbe" in container:
                until(lambda c=container: self._answers(c, "startupProbe"), f"{container['name']} to have started")  # type: ignore[misc]

    @property
    def is_ready(self) -> bool:
        """Whether all readiness probes succeed."""
        probed = [each for each in self._containers if "readinessProbe" in each]
        return all(self._answers(each, "readinessProbe") for each in probed)

    def port(self, name: str) -> int:
        """The loopback port that stands for a container's port of this name."""
        return self._ports[self._names[name]]

    def log(self, container: str) -> str:
        return (self._directory / f"{container}.log").read_text()

    def delete(self) -> dict[str, Ended]:
        """What a kubelet does with a pod that is deleted; how each of its containers ended."""
        begun = time.monotonic()
        ended: dict[str, Ended] = {}
        regular = [each["name"] for each in self._containers if each["name"] not in self._is_sidecar]

        def end(container: Object) -> None:
            name, process = container["name"], self._processes[container["name"]]
            self._run_hook(container)  # of sidecars too: hooks wait for no other container
            if name in self._is_sidecar:
                for other in regular:
                    self._wait(self._processes[other], begun + self.grace)
            process.terminate()
            is_killed = not self._wait(process, max(begun + self.grace, time.monotonic() + MINIMUM_GRACE))
            if is_killed:
                process.kill()
            ended[name] = Ended(process.wait(), time.monotonic() - begun, is_killed)

        threads = [threading.Thread(target=end, args=(each,)) for each in self._containers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return ended

    def kill(self) -> None:
        """Nothing is left of it."""
        for process in self._processes.values():
            process.kill()
            process.wait()

    def _start(self, container: Object) -> None:
        for mount in container.get("volumeMounts", []):
            self._mounted(mount["name"]).mkdir(parents=True, exist_ok=True)
            if mount["name"] == "config":
                for name, text in self._config["data"].items():
                    here = self._here(yaml.safe_load(text), container)
                    (self._mounted("config") / name).write_text(yaml.safe_dump(here))
        image = container["image"].partition("@")[0].rpartition(":")[0]
        words = [*(container.get("command") or IMAGES[image]), *container.get("args", [])]
        environment = {each["name"]: self._here(each["value"], container) for each in container.get("env", [])}
        with (self._directory / f"{container['name']}.log").open("wb") as log:
            self._processes[container["name"]] = subprocess.Popen(
                self._here(words, container),
                env=os.environ | environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _here(self, value: Any, container: Object) -> Any:
        """The value, with addresses and paths as they are on this machine."""
        if isinstance(value, dict):
            return {key: self._here(each, container) for key, each in value.items()}
        if isinstance(value, list):
            return [self._here(each, container) for each in value]
        if not isinstance(value, str):
            return value
        if value in self._hosts:
            return self._hosts[value]
        own = re.fullmatch(r"(?:127\.0\.0\.1|0\.0\.0\.0)?:(\d+)", value)
        if own:
            return f"127.0.0.1:{self._ports[int(own[1])]}"
        for mount in container.get("volumeMounts", []):
            if value == mount["mountPath"] or value.startswith(mount["mountPath"] + "/"):
                return str(self._mounted(mount["name"])) + value.removeprefix(mount["mountPath"])
        return value

    def _mounted(self, volume: str) -> Path:
        return self._directory / "volumes" / volume

    def _answers(self, container: Object, probe: str) -> bool:
        """Whether an HTTP probe succeeds; `RuntimeError` if the container ended."""
        code = self._processes[container["name"]].poll()
        if code is not None and probe == "startupProbe":
            raise RuntimeError(f"{container['name']} ended with {code}\n{self.log(container['name'])}")
        asked = container[probe]["httpGet"]
        url = f"http://127.0.0.1:{self.port(asked['port'])}{asked['path']}"
        try:
            with urllib.request.urlopen(url, timeout=container[probe].get("timeoutSeconds", 1)):
                return True
        except OSError:  # an answer of 400 and more is one, too
            return False

    def _run_hook(self, container: Object) -> None:
        match container.get("lifecycle", {}).get("preStop"):
            case {"sleep": {"seconds": seconds}}:
                time.sleep(min(seconds, self.grace))
            case {"exec": {"command": words}}:
                subprocess.run(self._here(words, container), timeout=self.grace, check=False)
            case None:
                pass
            case other:
                raise NotImplementedError(other)

    @staticmethod
    def _wait(process: subprocess.Popen[bytes], end: float) -> bool:
        """Whether it ended before that."""
        try:
            process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True
