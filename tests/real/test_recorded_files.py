"""Each file of a recording is read alone, though its connections began in earlier ones."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from amqproxy.broker import serve_in_thread
from tests.real.pika_connection import connected
from tests.real.proxy import StartProxy

pytestmark = [pytest.mark.real, pytest.mark.once]

BODY = b"x" * 2_000


def amqproxy(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "amqproxy", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def messages(file: Path) -> list[dict[str, Any]]:
    found = amqproxy("decode", "--messages", "--json", file)
    assert found.returncode == 0, found.stderr
    return [each for each in map(json.loads, found.stdout.splitlines()) if each["type"] in ("publish", "deliver")]


def test_messages_of_each_file_have_their_outcomes(start_proxy: StartProxy, tmp_path: Path) -> None:
    directory = tmp_path / "captures"
    record = {"directory": str(directory), "file_size": "64KiB", "compress": False, "legs": "client"}
    with serve_in_thread() as broker:
        proxy = start_proxy(broker.port, record=record)
        with connected(proxy, heartbeat=0) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("orders")
            got: list[int] = []

            def consume(_: Any, method: Any, properties: Any, body: bytes) -> None:
                got.append(method.delivery_tag)
                channel.basic_ack(method.delivery_tag)

            channel.basic_consume("orders", consume)
            published = 0
            end = time.monotonic() + 60
            while len(list(directory.glob("*.pcapng"))) < 3 and time.monotonic() < end:
                for _ in range(10):
                    channel.basic_publish("", "orders", BODY)
                published += 10
                while len(got) < published and time.monotonic() < end:
                    connection.process_data_events(0.02)
        proxy.terminate()
        proxy.wait()
        files = sorted(directory.glob("*.pcapng"))
        assert len(files) >= 3
        found = [messages(file) for file in files]
        replayed = [amqproxy("replay", file, "--to", f"amqp://127.0.0.1:{broker.port}") for file in files[1:]]
        compared = amqproxy("compare", files[1], files[1])
    assert sum(map(len, found)) == 2 * published
    kinds = Counter((each["type"], each.get("queue"), each["outcome"]) for one in found for each in one)
    assert {kind for kind in kinds if kind[2] != "open"} == {
        ("publish", None, "confirmed"),
        ("deliver", "orders", "acked"),
    }
    assert sum(count for kind, count in kinds.items() if kind[2] == "open") <= 20 * (len(files) - 1)  # at an end
    told = "".join(each.stdout + each.stderr for each in replayed)  # what was published into an earlier file is missed
    assert "commands sent" in told
    assert "the consumer that gets it is not in the capture" not in told
    assert (compared.returncode, "no difference" in compared.stdout) == (0, True)
