"""`make pipeline-demo`: clients → proxy → recorder → pipeline → tables → Analytics, and a report.

Stays up until Ctrl-C; with `--once` it ends when the tables agree with what the clients did, and says so. Needs
"amqproxy[dashboard,pipeline]" and Java 17.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.request import urlopen

import pika

MESSAGES_A_SECOND = 20

ONCE = 60
"""Messages of a demo that ends by itself."""

QUIET = 2.5
"""Seconds after which a line says what is waited for."""

PATIENCE = 600.0


class Counted:
    """What the clients have done, and what the tables have of it: messages that were published and acknowledged."""

    def __init__(self) -> None:
        self.published = self.acked = 0
        self.in_tables = (0, 0)


def line(text: str) -> None:
    print(text, flush=True)


def started(stack: ExitStack, log: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """amqproxy with these arguments, which is ended with the demo."""
    file = stack.enter_context(log.open("wb"))
    process = subprocess.Popen([sys.executable, "-m", "amqproxy", *arguments], stdout=file, stderr=file)

    def end() -> None:
        process.send_signal(signal.SIGTERM)
        for _ in range(12):
            try:
                process.wait(QUIET)
                return
            except subprocess.TimeoutExpired:
                line(f"  … {arguments[0]} ends")
        process.kill()

    stack.callback(end)
    return process


def address_in(log: Path, event: str, process: subprocess.Popen[bytes]) -> str:
    """The address that the log names."""
    waits_since = time.monotonic()
    while True:
        for text in log.read_text().splitlines():
            found = json.loads(text) if text.startswith("{") else {}
            if found.get("event") == event:
                return str(found["address"])
        if process.poll() is not None:
            sys.exit(f"the proxy ended:\n{log.read_text()}")
        if time.monotonic() - waits_since > QUIET:
            line("  … the proxy starts")
            waits_since = time.monotonic()
        time.sleep(0.05)


def publish(address: str, stop: threading.Event, counted: Counted, most: int | None) -> None:
    """A shop that sends orders, each of which is confirmed."""
    with connected(address, "shop") as connection:
        channel = connection.channel()
        channel.exchange_declare("orders", "topic")
        channel.queue_declare("warehouse")
        channel.queue_bind("warehouse", "orders", "order.*")
        channel.confirm_delivery()
        while not stop.is_set() and counted.published != most:
            body = json.dumps({"order": counted.published}).encode()
            channel.basic_publish("orders", "order.tea", body, pika.BasicProperties(message_id=f"o{counted.published}"))
            counted.published += 1
            connection.process_data_events(1 / MESSAGES_A_SECOND)


def consume(address: str, stop: threading.Event, counted: Counted, most: int | None) -> None:
    """A warehouse that acknowledges them."""
    with connected(address, "warehouse") as connection:
        channel = connection.channel()
        channel.queue_declare("warehouse")
        channel.basic_qos(prefetch_count=20)
        for method, _, _ in channel.consume("warehouse", inactivity_timeout=0.2):
            if method is not None:
                channel.basic_ack(method.delivery_tag)
                counted.acked += 1
            if stop.is_set() or counted.acked == most:
                return


def connected(address: str, name: str) -> pika.BlockingConnection:
    host, port = address.split(":")
    properties = {"connection_name": name}
    return pika.BlockingConnection(pika.ConnectionParameters(host, int(port), client_properties=properties))


def in_tables(url: str) -> tuple[int, int]:
    """How many messages were published and acknowledged, as Analytics has it."""
    with urlopen(f"{url}api/v1/analytics/traffic?step=day", timeout=60) as response:
        points = json.load(response)["points"]
    return sum(each["published"] for each in points), sum(each["acked"] for each in points)


def look(url: str, stop: threading.Event, counted: Counted) -> None:
    """Ask again and again, beside what is printed: an answer may take its time."""
    while not stop.wait(1):
        with suppress(OSError):  # it does not answer yet
            counted.in_tables = in_tables(url)


def main() -> None:
    once = "--once" in sys.argv[1:]
    stop, counted = threading.Event(), Counted()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with tempfile.TemporaryDirectory(prefix="amqproxy-demo-") as name, ExitStack() as stack:
        run(Path(name), stack, stop, counted, ONCE if once else None)


def run(place: Path, stack: ExitStack, stop: threading.Event, counted: Counted, most: int | None) -> None:
    recordings, tables, log = place / "recordings", place / "tables", place / "proxy.log"
    config = {
        "listen": [{"address": "127.0.0.1:0"}],
        "upstream": "broker",
        "record": {"directory": str(recordings), "file_age": 3, "compress": False},
        "dashboard": {"listen": "127.0.0.1:0", "tables": str(tables)},
        "log": {"format": "json"},
    }
    (place / "demo.yaml").write_text(json.dumps(config))
    process = started(stack, log, "run", "--config", str(place / "demo.yaml"))
    url = address_in(log, "dashboard", process)
    line(f"\n  Analytics   {url}analytics\n")
    line(f"Traffic goes through the proxy, which records it; the pipeline makes tables of the recordings, in {tables}.")
    address = address_in(log, "listening", process)
    work = [threading.Thread(target=each, args=(address, stop, counted, most)) for each in (publish, consume)]
    work.append(threading.Thread(target=look, args=(url, stop, counted)))
    for each in work:
        each.start()
    options = ("--tables", str(tables), "--interval", "2", "--review", "20", "--age", "1m")
    pipeline = started(stack, place / "pipeline.log", "pipeline", "run", "--live", str(recordings), *options)
    found, since, is_told = (0, 0), time.monotonic(), False
    while not stop.wait(QUIET):
        if pipeline.poll() is not None:
            stop.set()
            line(f"The pipeline ended:\n{(place / 'pipeline.log').read_text()}")
            break
        found = counted.in_tables
        line(
            f"  clients: {counted.published} published, {counted.acked} acknowledged · "
            f"tables: {found[0]} published, {found[1]} acknowledged"
        )
        if found[0] and not is_told:
            is_told = True
            line(
                f"\nThe first tables are there: look at {url}analytics. A report of them:\n"
                f"  {sys.executable} -m amqproxy pipeline report --tables {tables}\nCtrl-C ends the demo.\n"
            )
        if most is not None and found == (most, most):
            line(f"The tables have all {most} messages, as the clients count them.")
            stop.set()
        if most is not None and time.monotonic() - since > PATIENCE:
            stop.set()
            line(f"After {PATIENCE:.0f} s the tables have {found}, not {most}.")
    stop.set()
    line("Stopping …")
    for each in work:
        each.join()
    if most is not None and found != (most, most):
        line((place / "pipeline.log").read_text())
        sys.exit(1)


if __name__ == "__main__":
    main()
