"""The command-line tools of rabbitmq-c."""

import subprocess
from pathlib import Path

import pytest

from tests.real.clients import Broker
from tests.real.require import require


def tool(name: str, broker: Broker, *arguments: str | Path, data: bytes = b"") -> bytes:
    command = [require(name, package="amqp-tools"), "--server", "127.0.0.1", "--port", str(broker.port), *arguments]
    done = subprocess.run(command, input=data, capture_output=True, check=False)
    if done.returncode:
        raise ChildProcessError(f"{name}: {done.returncode} {done.stderr.decode()}")
    return done.stdout


def every_tool(broker: Broker) -> None:
    queue = "tests.rabbitmq-c"
    assert tool("amqp-declare-queue", broker, "--queue", queue) == f"{queue}\n".encode()
    try:
        with pytest.raises(ChildProcessError):
            tool("amqp-get", broker, "--queue", queue)
        body = bytes(300_000) + b"end"
        tool("amqp-publish", broker, "--routing-key", queue, "--persistent", data=body)
        assert tool("amqp-get", broker, "--queue", queue) == body
        for number in range(3):
            tool("amqp-publish", broker, "--routing-key", queue, "--body", f"message {number}", "--content-type", "t/p")
        consumed = tool("amqp-consume", broker, "--queue", queue, "--count", "3", "--prefetch-count", "1", "cat")
        assert consumed == b"message 0message 1message 2"
        tool("amqp-publish", broker, "--routing-key", queue, "--line-buffered", data=b"one\ntwo\n")
        assert [tool("amqp-get", broker, "--queue", queue) for _ in range(2)] == [b"one\n", b"two\n"]
    finally:
        assert tool("amqp-delete-queue", broker, "--queue", queue) == b"0\n"
    with pytest.raises(ChildProcessError, match="404"):
        tool("amqp-get", broker, "--queue", queue)
    with pytest.raises(ChildProcessError):
        tool("amqp-get", broker, "--queue", queue, "--password", "wrong")
