"""Standard error that takes nothing: no client notices, and signals work as ever."""

import fcntl
import os
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pika
import pytest

from amqproxy.cli.failure import INTERRUPTED
from tests.cli.process import COMMAND, DEADLINE, connected
from tests.real.poll import until
from tests.real.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.once]

CONNECTIONS = 100
"""Each of them makes the proxy and the broker log some lines."""

Stderr = Callable[[], AbstractContextManager[int | None]]


@contextmanager
def a_full_disk() -> Iterator[int]:
    with Path("/dev/full").open("wb") as full:
        yield full.fileno()


@contextmanager
def a_pipe_without_reader() -> Iterator[int]:
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@contextmanager
def a_pipe_that_is_not_read() -> Iterator[int]:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writing, b"x" * 4096)
    yield writing
    os.close(writing)
    os.close(reading)


@contextmanager
def nothing() -> Iterator[int | None]:
    """Closed by our parent."""
    yield None


@pytest.mark.parametrize("stderr", [a_full_disk, a_pipe_without_reader, a_pipe_that_is_not_read, nothing])
@pytest.mark.parametrize("command", ["run", "broker"])
def test_clients_do_not_notice_that_the_log_cannot_be_written(command: str, stderr: Stderr) -> None:
    port, metrics = free_port(), free_port()
    arguments = [*COMMAND, command, "--listen", f"127.0.0.1:{port}", "--log-level", "debug"]
    if command == "run":
        arguments += ["--upstream", "broker", "--metrics", f"127.0.0.1:{metrics}"]
    with stderr() as descriptor:
        if descriptor is None:
            arguments = ["sh", "-c", f"exec {' '.join(arguments)} 2>&-"]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=descriptor)
        try:
            beside = _eventually_connected(process, port)
            channel = beside.channel()
            channel.queue_declare("q")
            for _ in range(CONNECTIONS):
                with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE) as client:
                    client.sendall(b"GET / HT")  # which is logged
                channel.basic_publish("", "q", b"x")
                while channel.basic_get("q", auto_ack=True)[2] is None:
                    pass
            if command == "run":
                lines = CONNECTIONS if stderr in (a_full_disk, a_pipe_without_reader) else 0
                until(lambda: _dropped(metrics) >= lines, "the lines that are lost to be counted")  # by a thread
            beside.close()
            process.send_signal(signal.SIGTERM)
            assert process.communicate(timeout=DEADLINE)[0] == b""
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 0


@pytest.mark.parametrize("stdout", [a_full_disk, a_pipe_without_reader, a_pipe_that_is_not_read])
def test_neither_does_anybody_notice_that_nothing_can_be_printed(stdout: Stderr) -> None:
    """Where the log stands still, too."""
    port, metrics = free_port(), free_port()
    arguments = [*COMMAND, "run", "--listen", f"127.0.0.1:{port}", "--upstream", "broker", "--print", "--body"]
    arguments += ["--metrics", f"127.0.0.1:{metrics}"]
    with stdout() as output, a_pipe_that_is_not_read() as log:
        process = subprocess.Popen(arguments, stdout=output, stderr=log)
        try:
            beside = _eventually_connected(process, port)
            channel = beside.channel()
            channel.queue_declare("q")
            for _ in range(CONNECTIONS):
                channel.basic_publish("", "q", b"x" * 100)
                while channel.basic_get("q", auto_ack=True)[2] is None:
                    pass
            _dropped(metrics)
            beside.close()
            process.send_signal(signal.SIGTERM)
            process.wait(DEADLINE)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 0


def test_a_second_signal_works_where_the_log_stands_still() -> None:
    port = free_port()
    with a_pipe_that_is_not_read() as log:
        arguments = [*COMMAND, "broker", "--listen", f"127.0.0.1:{port}"]
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=log)
        try:
            beside = _eventually_connected(process, port)  # which does not answer, since it is not polled
            process.send_signal(signal.SIGINT)
            _until_refused(process, port)
            process.send_signal(signal.SIGINT)
            assert process.wait(DEADLINE) == INTERRUPTED
        finally:
            process.kill()
            process.wait()
        with pytest.raises(pika.exceptions.AMQPError):
            beside.sleep(1)


def _until_refused(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until it accepts no connection any more."""
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=DEADLINE).close()
        except OSError:
            return
        time.sleep(0.02)
    pytest.fail(f"it has ended: {process.poll()}")


def _eventually_connected(process: subprocess.Popen[bytes], port: int) -> pika.BlockingConnection:
    """A client's connection, once the process, which cannot log it, is up."""
    deadline = time.monotonic() + DEADLINE
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=DEADLINE).close()
        except OSError:
            time.sleep(0.05)
        else:
            return connected(port)
    pytest.fail(f"it does not come up: {process.poll()}")


def _dropped(port: int) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=DEADLINE) as answer:
        found = re.search(rb"^amqproxy_log_lines_dropped_total (\S+)", answer.read(), re.MULTILINE)
    assert found is not None
    return float(found[1])
