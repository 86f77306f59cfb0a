"""amqproxy as a separate process."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from tests.real.poll import until

EXIT_DEADLINE = 60.0
LISTENING = re.compile(r"listening\b.*?\baddress\W+(?:127\.0\.0\.1):(\d+)")


def command() -> list[str]:
    """How amqproxy is started: `AMQPROXY_COMMAND`, or this interpreter's own."""
    return shlex.split(os.environ.get("AMQPROXY_COMMAND", "")) or [sys.executable, "-m", "amqproxy"]


class Program:
    """amqproxy with some arguments, listening on `port` once constructed."""

    def __init__(self, output: Path, *command: str, records: Path | None = None) -> None:
        """`output` is a file for all that it writes; `records` another for its standard output, if that is wanted."""
        self.output = output
        self.records = records or output
        with output.open("wb") as log, self.records.open("ab") as out:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out if records else log, stderr=log
            )
        self.pid = self.process.pid
        self.psutil = psutil.Process(self.pid)
        try:
            self.port = until(self._listening, "amqproxy to listen")
        except BaseException:
            self.kill()
            raise

    def _listening(self) -> int:
        if self.process.poll() is not None:
            raise RuntimeError(f"amqproxy ended with {self.process.returncode}\n{self.log}")
        found = LISTENING.search(self.log)
        return int(found[1]) if found else 0

    @property
    def log(self) -> str:
        return self.output.read_text(errors="replace")

    def rss(self) -> int:
        """Resident bytes."""
        return self.psutil.memory_info().rss  # type: ignore[no-any-return]

    def descriptors(self) -> int:
        """Open file descriptors."""
        return self.psutil.num_fds()  # type: ignore[no-any-return]

    def sockets(self) -> int:
        """Established or closing TCP connections, both legs."""
        return sum(each.status != psutil.CONN_LISTEN for each in self.psutil.net_connections("tcp"))

    def terminate(self) -> None:
        """SIGTERM: drain."""
        self.process.send_signal(signal.SIGTERM)

    def wait(self, deadline: float = EXIT_DEADLINE) -> int:
        """The exit code."""
        return self.process.wait(deadline)

    def kill(self) -> None:
        """Nothing is left of it."""
        self.process.kill()
        self.process.wait()


class Proxy(Program):
    """`amqproxy run` in front of a loopback port."""

    def __init__(
        self, directory: Path, upstream_port: int, /, *options: str, records: Path | None = None, **config: Any
    ) -> None:
        """`upstream_port` is on 127.0.0.1; `config` is what a config file may hold beside addresses."""
        where = {"--listen": "127.0.0.1:0", "--upstream": f"127.0.0.1:{upstream_port}"}
        place = [word for option in where.items() for word in option]
        number = len(list(directory.glob("proxy-*.log")))
        output = directory / f"proxy-{number}.log"
        if config:
            config.setdefault("listen", [{}])[0]["address"] = where["--listen"]
            config.setdefault("upstream", {})["address"] = where["--upstream"]
            file = output.with_suffix(".yaml")
            file.write_text(json.dumps(config))  # which is YAML too
            place = ["--config", str(file)]
        super().__init__(output, *command(), "run", *place, *options, records=records)


StartProxy = Callable[..., Proxy]
"""What the fixture `start_proxy` is: takes what `Proxy` takes after its directory."""
