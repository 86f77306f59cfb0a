"""The management API with a large estate: import, lists, scrapers, faults, and a client's round trips beside them.

`amqproxy broker --management` gets the estate by HTTP, as an operator would give it, while a client publishes with
confirms. Figures are seconds, milliseconds, MiB and shares of a core of one run: RabbitMQ takes minutes for such an
estate, so that it is not beside it.
"""

from __future__ import annotations

import gzip
import http.client
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psutil

from bench.confirms import RoundTrips, confirms
from bench.estate import LOGIN, MIB, Answer, estate, post, queue_name

SCRAPERS = 10
SCRAPED_SECONDS = 15.0
SCRAPED = (
    "api/overview",
    "api/queues?page=1&page_size=100&sort=messages&sort_reverse=true",
    "metrics",
)
"""The requests of a scraper, once a second."""

LISTS = (
    "api/queues",
    "api/queues?page=1&page_size=100&sort=messages&sort_reverse=true",
    "api/queues?page=1&page_size=100&name=queue77&use_regex=true",
    "api/queues?page=1&page_size=100&sort=message_stats.publish_details.rate",
    "api/queues?disable_stats=true&enable_queue_totals=true",
    "api/overview",
    "metrics",
    "api/definitions",
)

REPEATED = 3
"""Requests for one list, of which the quickest is shown."""

IDLE_SECONDS = 5.0

STOPPED_SECONDS = 15.0
"""Longer than the broker waits for a control client that does not read."""

FLOODED_SECONDS = 10.0
FLOODERS = 12
FLOOD = b" " * (10 * MIB - 1024)
"""A body just below the API's limit."""


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


def cpu(process: psutil.Process) -> float:
    """Return the processor seconds that a process has used."""
    times = process.cpu_times()
    return float(times.user + times.system)


class Scene:
    """A broker with its API, and the figures of one part of the measurement after the other."""

    def __init__(self, broker: psutil.Process, amqp: int, port: int) -> None:
        self._broker = broker
        self._amqp = amqp
        self._port = port
        self._idle = RoundTrips()

    @property
    def _api(self) -> psutil.Process:
        [api] = self._broker.children()
        return api

    def _beside(self, beside: RoundTrips) -> tuple[str, str]:
        more = (beside.p99 - self._idle.p99) * 1000
        return "  publish to confirm beside it", f"{beside} · p99 {more:+.1f} ms"

    def idle(self) -> Iterator[tuple[str, str]]:
        Answer(self._port, "api/overview")
        with confirms(self._amqp) as self._idle:
            time.sleep(IDLE_SECONDS)
        yield "publish to confirm, idle: median, p99, p99.9, longest", str(self._idle)

    def imported(self, scale: float) -> Iterator[tuple[str, str]]:
        seconds = 0.0
        before = cpu(self._broker), cpu(self._api)
        with confirms(self._amqp) as beside:
            for part in estate(scale):
                began = time.perf_counter()
                post(self._port, part)
                seconds += time.perf_counter() - began
        used = cpu(self._broker) - before[0], cpu(self._api) - before[1]
        yield "import", f"{seconds:.1f} s · broker {used[0]:.1f} s of processor · API {used[1]:.1f} s"
        yield self._beside(beside)

    def lists(self) -> Iterator[tuple[str, str]]:
        sizes = {}
        for path in LISTS:
            with confirms(self._amqp) as beside, peak(self._broker) as in_broker, peak(self._api) as in_api:
                before = cpu(self._broker), cpu(self._api)
                answers = [Answer(self._port, path) for _ in range(REPEATED)]
                used = [(cpu(self._broker) - before[0]) / REPEATED, (cpu(self._api) - before[1]) / REPEATED]
            answer = min(answers, key=lambda each: each.first)
            sizes[path] = len(answer.body)
            yield (
                f"GET /{path}",
                f"{answer} · broker +{in_broker[0]:.1f} MiB, {used[0] * 1000:.0f} ms of processor · "
                f"API +{in_api[0]:.1f} MiB, {used[1] * 1000:.0f} ms",
            )
            yield self._beside(beside)
        brief = sizes["api/queues?disable_stats=true&enable_queue_totals=true"]
        yield "  bytes with disable_stats=true", f"{100 * brief / sizes['api/queues']:.0f} % of all"
        packed = Answer(self._port, "api/queues", **{"Accept-Encoding": "gzip"})
        yield "GET /api/queues, gzip", f"{packed} of {len(gzip.decompress(packed.body)) / MIB:.1f}"

    def scraped(self) -> Iterator[tuple[str, str]]:
        alone = self._shares(lambda: time.sleep(SCRAPED_SECONDS))
        yield "sampling alone", f"broker {alone[0]:.1f} % of a core · API {alone[1]:.1f} %"
        shares = self._shares(self._scrape_all)
        yield (
            f"{SCRAPERS} scrapers at 1 Hz",
            f"broker {shares[0]:.1f} %, {shares[0] - alone[0]:+.1f} · API {shares[1]:.1f} %",
        )
        with confirms(self._amqp) as beside:
            self._scrape_all()
        yield self._beside(beside)

    def _shares(self, work: Callable[[], None]) -> tuple[float, float]:
        """Return the percentages of a core that the broker and its API use during some work."""
        broker, api = self._broker, self._api
        began, before = time.monotonic(), (cpu(broker), cpu(api))
        work()
        seconds = time.monotonic() - began
        return 100 * (cpu(broker) - before[0]) / seconds, 100 * (cpu(api) - before[1]) / seconds

    def _scrape_all(self) -> None:
        threads = [threading.Thread(target=self._scrape, args=(n / SCRAPERS,)) for n in range(SCRAPERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _scrape(self, phase: float) -> None:
        time.sleep(phase)
        end = time.monotonic() + SCRAPED_SECONDS
        while time.monotonic() < end:
            began = time.monotonic()
            for path in SCRAPED:
                Answer(self._port, path)
            time.sleep(max(0.0, 1.0 - (time.monotonic() - began)))

    def faults(self) -> Iterator[tuple[str, str]]:
        """Stop, flood and kill the API while it has lists under way."""
        with confirms(self._amqp) as beside, self._readers():
            api = self._api
            api.send_signal(signal.SIGSTOP)
            time.sleep(STOPPED_SECONDS)
            api.send_signal(signal.SIGCONT)
        yield f"API stopped for {STOPPED_SECONDS:.0f} s with lists under way", ""
        yield self._beside(beside)
        Answer(self._port, "api/overview")
        with confirms(self._amqp) as beside, self._readers():
            threads = [threading.Thread(target=self._flood, args=(n,)) for n in range(FLOODERS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        yield f"API flooded with bodies of 10 MiB, lists and logins by {FLOODERS} clients", ""
        yield self._beside(beside)
        Answer(self._port, "api/overview")
        with confirms(self._amqp) as beside, self._readers():
            self._api.kill()
            time.sleep(IDLE_SECONDS)
            Answer(self._port, "api/overview")  # by the next process
        yield "API killed with lists under way, and started again", ""
        yield self._beside(beside)

    @contextmanager
    def _readers(self) -> Iterator[None]:
        """Read lists without a pause while the block runs; those that the fault cuts are begun anew."""
        is_over = threading.Event()

        def read(path: str) -> None:
            while not is_over.is_set():
                with suppress(OSError, http.client.HTTPException):
                    Answer(self._port, path)

        threads = [threading.Thread(target=read, args=(path,)) for path in LISTS]
        for thread in threads:
            thread.start()
        try:
            time.sleep(1)
            yield
        finally:
            is_over.set()
            for thread in threads:
                thread.join()

    def _flood(self, number: int) -> None:
        end = time.monotonic() + FLOODED_SECONDS
        while time.monotonic() < end:
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
            with suppress(OSError, http.client.HTTPException):
                if number % 2:
                    connection.request("POST", "/api/definitions", FLOOD, LOGIN)
                else:
                    connection.request("GET", f"/api/queues/%2F/{queue_name(number)}", headers=LOGIN)
                connection.getresponse().read()
            connection.close()


def measure(scale: float = 1.0, *parts: str) -> Iterator[tuple[str, str]]:
    """Yield the figures of the import and of some `parts` after it, all without any, each with what it is of."""
    with running() as (broker, amqp, port):
        scene = Scene(broker, amqp, port)
        yield from scene.idle()
        yield from scene.imported(scale)
        known: dict[str, Callable[[], Any]] = {
            "lists": scene.lists,
            "scrapers": scene.scraped,
            "faults": scene.faults,
        }
        for part in parts or known:
            yield from known[part]()


def main() -> None:
    scale, *parts = sys.argv[1:] or ["1"]
    for what, figure in measure(float(scale), *parts):
        print(f"{what}: {figure}", flush=True)


if __name__ == "__main__":
    main()
