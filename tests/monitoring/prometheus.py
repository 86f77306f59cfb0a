"""A Prometheus of the test's own, on a loopback port."""

import json
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from tests.real.poll import until
from tests.real.ports import free_port
from tests.real.require import require

INTERVAL = "500ms"
"""Between two scrapes, for each of them, and between two looks at the alert rules."""


class PrometheusServer:
    """Debian's Prometheus on a loopback port, with the options that it is given; ready once constructed."""

    def __init__(self, directory: Path, port: int, *options: str) -> None:
        address = f"127.0.0.1:{port}"
        self._url = f"http://{address}"
        self._log = directory / "prometheus.log"
        command = [require("prometheus"), f"--web.listen-address={address}", *options]
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            until(self._is_ready, "Prometheus to be ready")
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an instant vector, each with `metric` and `value`."""
        result: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return result

    def value(self, expression: str) -> float:
        """The only value of a query; 0 where there is none."""
        found = self.query(expression)
        return float(found[0]["value"][1]) if found else 0.0

    def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer of the API; `AssertionError` with the reason when it was wrong to ask so."""
        url = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{parameters}: {error.read().decode()}") from None

    def alerts(self) -> dict[str, str]:
        """The alerts that are pending or fire, with which of both."""
        return {alert["labels"]["alertname"]: alert["state"] for alert in self.get("alerts")["alerts"]}

    def _is_ready(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"Prometheus ended with {self._process.returncode}\n{self._log.read_text()}")
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready", timeout=5) as response:
                return bool(response.status == 200)
        except OSError:
            return False


class Prometheus(PrometheusServer):
    """Scrapes HOST:PORT as the job "amqproxy", and evaluates the alert rules in `rules`."""

    def __init__(self, directory: Path, target: str, rules: Path) -> None:
        self.target = target
        config = {
            "global": {"scrape_interval": INTERVAL, "scrape_timeout": INTERVAL, "evaluation_interval": INTERVAL},
            "rule_files": [str(rules)],
            "scrape_configs": [{"job_name": "amqproxy", "static_configs": [{"targets": [target]}]}],
        }
        file = directory / "prometheus.yml"
        file.write_text(yaml.safe_dump(config))
        place = f"--storage.tsdb.path={directory / 'tsdb'}"
        super().__init__(directory, free_port(), f"--config.file={file}", place, "--query.lookback-delta=5m")

    def scrape(self) -> None:
        """Wait until all that has happened up to now is scraped; a scrape that fails has `up` only."""
        now = time.time()
        until(lambda: self.value("timestamp(amqproxy_connections)") > now, "a scrape")
