"""The other programs, started on free loopback ports and stopped when their block ends."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from bench import talk
from bench.report import SUBJECT, Missing

_SYSTEM_DIRECTORIES = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_START_DEADLINE = 120.0
LISTEN = ("--listen", "127.0.0.1:0")


class Proxy(NamedTuple):
    """A contender, proxy or broker: its name, its port, and its process id (`None` without a proxy)."""

    name: str
    port: int
    pid: int | None = None


class Placement(NamedTuple):
    """The cores on which the two ends run, and those of the proxy between them."""

    name: str
    ends: set[int]
    proxy: set[int]

    def put(self, proxies: Sequence[Proxy]) -> None:
        """Pin all threads of these proxies to the proxy's cores."""
        for each in proxies:
            if each.pid is not None:
                for task in Path(f"/proc/{each.pid}/task").iterdir():
                    os.sched_setaffinity(int(task.name), self.proxy)

    def put_end(self) -> None:
        """Pin this process, which is one of the ends, to the ends' cores."""
        os.sched_setaffinity(0, self.ends)


def placements() -> list[Placement]:
    """Return the placements: unrestricted, all on one core, and, with two cores or more, the proxy on its own core."""
    every = os.sched_getaffinity(0)
    one = {min(every)}
    found = [Placement("on any core", every, every), Placement("on one core", one, one)]
    if every - one:
        found.append(Placement("on a core of its own", one, {max(every)}))
    return found


def program(name: str, package: str) -> str:
    """Return the path of an installed program; `Missing` if it is not installed."""
    path = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *_SYSTEM_DIRECTORIES]))
    if path is None:
        raise Missing(f"{name} is not installed (apt-get install {package})")
    return path


@contextmanager
def contenders(upstream: int, *, with_threads: bool = True) -> Iterator[tuple[list[Proxy], list[str]]]:
    """Run HAProxy with its default and with one thread, and amqproxy; yield no proxy, these, and missing programs."""
    with ExitStack() as stack:
        proxies, missing = [Proxy("no proxy", upstream)], []
        try:
            proxies.append(stack.enter_context(haproxy(upstream)))
            if with_threads:
                proxies.append(stack.enter_context(haproxy(upstream, threads=1)))
        except Missing as lack:
            missing.append(str(lack))
        proxies.append(stack.enter_context(amqproxy(upstream)))
        yield proxies, missing


@contextmanager
def haproxy(
    upstream: int, *, threads: int | None = None, connections: int = 2000, bind: str = "", server: str = ""
) -> Iterator[Proxy]:
    """Run HAProxy in TCP mode, for `connections` connections; its default is one thread per core.

    `bind` and `server` are further words of these lines, for TLS.
    """
    path = program("haproxy", "haproxy")
    with tempfile.TemporaryDirectory() as directory, listener() as listening:
        config = Path(directory, "haproxy.cfg")
        config.write_text(
            "global\n"
            f"{f' nbthread {threads}' if threads else ''}\n"
            f" maxconn {connections}\n"
            "defaults\n"
            " mode tcp\n"
            " timeout connect 10s\n timeout client 1h\n timeout server 1h\n"
            "listen amqp\n"
            f" bind fd@{listening.fileno()} {bind}\n"
            f" server broker 127.0.0.1:{upstream} {server}\n"
        )
        port = listening.getsockname()[1]
        with _process([path, "-db", "-q", "-f", str(config)], keep=[listening.fileno()]) as process:
            listening.close()  # if HAProxy fails to start, clients are refused
            yield Proxy(f"haproxy x{threads}" if threads else "haproxy", port, process.pid)


@contextmanager
def amqproxy(
    upstream: int, config: Path | None = None, *options: str, turns: Path | None = None, has_listener: bool = False
) -> Iterator[Proxy]:
    """Run the proxy of this checkout, with metrics, the rules of `config` if given, and further options.

    `turns` is a file to which its longest turns are written (`loop_turns`). `has_listener` if the config says where it
    listens.
    """
    arguments = [*options, "--upstream", f"127.0.0.1:{upstream}", "--metrics", "127.0.0.1:0"]
    arguments += () if has_listener else LISTEN
    if config is not None:
        arguments += ["--config", str(config)]
    with _ours("run", *arguments, turns=turns) as proxy:
        yield proxy


@contextmanager
def broker(data: Path | None = None, definitions: Path | None = None, config: Path | None = None) -> Iterator[Proxy]:
    """Run the broker of this checkout, with durable data in `data`, initial `definitions`, and a config file."""
    arguments = [] if data is None else ["--data", str(data)]
    if definitions is not None:
        arguments += ["--definitions", str(definitions)]
    if config is not None:
        arguments += ["--config", str(config)]
    with _ours("broker", *LISTEN, *arguments) as broker:
        yield broker


@contextmanager
def _ours(*arguments: str, turns: Path | None = None) -> Iterator[Proxy]:
    with tempfile.TemporaryFile() as log:
        program = ["amqproxy"] if turns is None else ["bench.loop_turns", str(turns)]
        command = [sys.executable, "-m", *program, *arguments, "--log-format", "json"]
        with _process(command, log=log.fileno()) as process:
            end = time.monotonic() + _START_DEADLINE
            while True:
                log.seek(0)
                lines = log.read().decode()
                address = next(
                    (json.loads(line)["address"] for line in lines.splitlines() if '"listening"' in line), ""
                )
                if address:
                    break
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"amqproxy did not start:\n{lines}")
                time.sleep(0.02)
            yield Proxy(SUBJECT, int(address.rpartition(":")[2]), process.pid)


@contextmanager
def rabbitmq(definitions: Path | None = None) -> Iterator[Proxy]:
    """Run a private RabbitMQ node with initial `definitions`; its data is deleted at the end.

    It is started as the tests do it: RABBITMQ in the environment chooses the version, such as 4.3.
    """
    try:
        import pytest

        from tests.real.rabbitmq import running
        from tests.real.rabbitmq_installation import chosen
    except ImportError as error:
        raise Missing(f"RabbitMQ is started as the tests do it: {error}") from error
    settings = {} if definitions is None else {"load_definitions": definitions}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, ExitStack() as stack:
        try:
            node = stack.enter_context(running(Path(name), chosen(), settings))
        except (pytest.skip.Exception, pytest.fail.Exception) as error:
            raise Missing(str(error)) from error
        assert node.node is not None
        yield Proxy(f"RabbitMQ {node.ctl('version').strip()}", node.port, node.node.pid)


@contextmanager
def listener() -> Iterator[socket.socket]:
    """Open a listening socket on a free port."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listening:
        listening.settimeout(talk.DEADLINE)
        yield listening


@contextmanager
def _process(
    command: Sequence[str],
    *,
    log: int = subprocess.DEVNULL,
    keep: Sequence[int] = (),
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=keep)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
