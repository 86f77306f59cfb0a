"""The management API with a large estate: import, lists, pages, scrapers, and a client's round trips beside them.

`amqproxy broker --management` gets the estate by HTTP, as an operator would give it, while a client publishes with
confirms. Figures are seconds, milliseconds and MiB of one run: RabbitMQ takes minutes for such an estate, so that it is
not beside it.
"""

from __future__ import annotations

import gzip
import http.client
import json
import subprocess
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from statistics import quantiles
from typing import Any

import pika  # type: ignore[import-untyped]
import psutil

QUEUES = 50_000
USERS = 10_000
POLICIES = 100
BINDINGS = 100_000

SCRAPERS = 10
SCRAPED_SECONDS = 15.0
IDLE_SECONDS = 5.0

LOGIN = {"Authorization": "Basic " + b64encode(b"guest:guest").decode(), "Content-Type": "application/json"}

MIB = 1024 * 1024


def estate(scale: float) -> Iterator[dict[str, Any]]:
    """Yield definitions, in documents below the API's limit on bodies."""
    queues, users, policies, bindings = (int(each * scale) for each in (QUEUES, USERS, POLICIES, BINDINGS))
    yield {
        "users": [
            {"name": f"user{n}", "password_hash": "", "tags": ["management"], "limits": {}} for n in range(users)
        ],
        "policies": [
            {"vhost": "/", "name": f"policy{n}", "pattern": f"^none{n}$", "definition": {"max-length": n + 1}}
            for n in range(policies)
        ],
    }
    yield {
        "queues": [
            {"vhost": "/", "name": f"queue{n}", "durable": True, "auto_delete": False, "arguments": {}}
            for n in range(queues)
        ]
    }
    for first in range(0, bindings, 25_000):
        yield {
            "bindings": [
                {
                    "source": "amq.topic",
                    "vhost": "/",
                    "destination": f"queue{n % max(queues, 1)}",
                    "destination_type": "queue",
                    "routing_key": f"key.{n}",
                    "arguments": {},
                }
                for n in range(first, min(first + 25_000, bindings))
            ]
        }


class RoundTrips:
    """A client that publishes and waits for the confirm, again and again, in a thread of its own."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._is_over = False
        self.times: list[float] = []
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self._port, heartbeat=0))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("beside", exclusive=True)
        while not self._is_over:
            began = time.perf_counter()
            channel.basic_publish("", "beside", b"x" * 100)
            self.times.append(time.perf_counter() - began)
            time.sleep(0.002)
        connection.close()

    def __enter__(self) -> RoundTrips:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._thread.join()

    @property
    def worst(self) -> str:
        """The median, p99, p99.9 and the longest, in milliseconds."""
        parts = quantiles(self.times, n=1000)
        found = (parts[499], parts[989], parts[998], max(self.times))
        return " · ".join(f"{each * 1000:.1f}" for each in found) + f" ms ({len(self.times)})"


class Answer:
    """A GET: seconds to the first byte and in all, and the bytes of the body."""

    def __init__(self, port: int, path: str, **headers: str) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        began = time.perf_counter()
        connection.request("GET", f"/api/{path}", headers={**LOGIN, **headers})
        response = connection.getresponse()
        first = response.read(1)
        self.first = time.perf_counter() - began
        self.body = first + response.read()
        self.seconds = time.perf_counter() - began
        self.status = response.status
        connection.close()

    def __str__(self) -> str:
        size = len(self.body) / MIB
        return (
            f"{self.status} · first byte {self.first * 1000:.0f} ms · all {self.seconds * 1000:.0f} ms · {size:.1f} MiB"
        )


@contextmanager
def running() -> Iterator[tuple[psutil.Process, int, int]]:
    """Yield the broker's process, its port, and that of its API."""
    command = [sys.executable, "-m", "amqproxy", "broker", "--listen", "127.0.0.1:0", "--management", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        ports: dict[str, int] = {}
        for line in process.stderr:
            for event in ("management", "listening"):
                if event in line and "address=" in line:
                    address = line.split("address=")[1].split()[0].rstrip("/")
                    ports[event] = int(address.rpartition(":")[2])
            if len(ports) == 2:
                break
        threading.Thread(target=process.stderr.read, daemon=True).start()
        try:
            yield psutil.Process(process.pid), ports["listening"], ports["management"]
        finally:
            process.terminate()
            process.wait(60)


def post(port: int, body: Mapping[str, Any]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("POST", "/api/definitions", json.dumps(body), LOGIN)
    response = connection.getresponse()
    text = response.read()
    if response.status >= 300:
        raise RuntimeError(f"import: {response.status} {text[:200]!r}")
    connection.close()


@contextmanager
def peak(process: psutil.Process) -> Iterator[list[float]]:
    """Measure the MiB that a process takes more at the most while the block runs."""
    before, is_over, most = process.memory_info().rss, threading.Event(), [0.0]

    def watch() -> None:
        while not is_over.wait(0.005):
            most[0] = max(most[0], (process.memory_info().rss - before) / MIB)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield most
    finally:
        is_over.set()
        thread.join()


def measure(scale: float = 1.0) -> Iterator[tuple[str, str]]:
    """Yield the figures, each with what it is of."""
    with running() as (broker, amqp, port):
        Answer(port, "overview")
        [api] = broker.children()
        with RoundTrips(amqp) as idle:
            time.sleep(IDLE_SECONDS)
        yield "publish to confirm, idle: median, p99, p99.9, most", idle.worst
        with RoundTrips(amqp) as beside:
            began = time.perf_counter()
            for part in estate(scale):
                post(port, part)
            seconds = time.perf_counter() - began
        yield "import", f"{seconds:.1f} s"
        yield "publish to confirm beside the import", beside.worst
        for path in (
            "queues",
            "queues?page=1&page_size=100&sort=messages&sort_reverse=true",
            "queues?page=1&page_size=100&sort=message_stats.publish_details.rate",
            "queues?disable_stats=true&enable_queue_totals=true",
            "definitions",
        ):
            with RoundTrips(amqp) as beside, peak(broker) as in_broker, peak(api) as in_api:
                answer = Answer(port, path)
            yield f"GET {path}", f"{answer} · broker +{in_broker[0]:.1f} MiB · API +{in_api[0]:.1f} MiB"
            yield "  publish to confirm beside it", beside.worst
        packed = Answer(port, "queues", **{"Accept-Encoding": "gzip"})
        yield "GET queues, gzip", f"{packed} of {len(gzip.decompress(packed.body)) / MIB:.1f}"
        before = broker.cpu_times()
        time.sleep(SCRAPED_SECONDS)
        between = broker.cpu_times()
        yield "broker with sampling alone", _share(before, between)
        with RoundTrips(amqp) as beside:
            threads = [threading.Thread(target=_scrape, args=(port,)) for _ in range(SCRAPERS)]
            before = broker.cpu_times()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            after = broker.cpu_times()
        yield (
            f"broker with {SCRAPERS} scrapers of the overview and a page at 1 Hz, and the client",
            _share(before, after),
        )
        yield "publish to confirm beside them", beside.worst


def _scrape(port: int) -> None:
    end = time.monotonic() + SCRAPED_SECONDS
    while time.monotonic() < end:
        began = time.monotonic()
        Answer(port, "overview")
        Answer(port, "queues/%2F/queue1")
        time.sleep(max(0.0, 1.0 - (time.monotonic() - began)))


def _share(before: Any, after: Any) -> str:
    used = after.user + after.system - before.user - before.system
    return f"{100 * used / SCRAPED_SECONDS:.1f} % of a core"


def main() -> None:
    for what, figure in measure(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0):
        print(f"{what}: {figure}", flush=True)


if __name__ == "__main__":
    main()
