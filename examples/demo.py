"""`make demo`: the proxy in front of a broker with its dashboard, real clients through it, and what it saw of them.

Stays up until Ctrl-C, so that you can send your own client through it; meanwhile a shop goes on with its business, for
the dashboard to show. The broker is the integrated one, or yours with AMQPROXY_UPSTREAM=HOST:PORT.
"""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

import pika

DASHBOARD = "127.0.0.1:8672"
ORDERS_A_SECOND = 5


def print_line(text: str = "") -> None:
    print(text, flush=True)


@contextmanager
def proxy(upstream: str, shows_frames: threading.Event) -> Iterator[dict[str, str]]:
    """Where the proxy listens ("listening"), and shows its metrics ("metrics") and its dashboard ("dashboard").

    Its frames go to our output for as long as `shows_frames` is set.
    """
    command = [sys.executable, "-m", "amqproxy", "run", "--upstream", upstream, "--print", "--log-format", "json"]
    command += ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--dashboard", address_of_dashboard()]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stderr is not None
    assert process.stdout is not None
    addresses: dict[str, str] = {}
    has_begun = threading.Event()
    threading.Thread(target=say_that_it_starts, args=(has_begun,), daemon=True).start()
    for line in process.stderr:
        has_begun.set()
        event = json.loads(line)
        addresses[event["event"]] = event.get("address", "")
        if event["event"] == "dashboard":
            print_line(f"\n  Dashboard   {event['address']}\n")
        if event["event"] == "listening":
            break
    else:
        has_begun.set()
        sys.exit(f"demo: the proxy did not start (exit code {process.wait()})")
    readers = [
        threading.Thread(target=show_log, args=(process.stderr, shows_frames), daemon=True),
        threading.Thread(target=show_frames, args=(process.stdout, shows_frames), daemon=True),
    ]
    for reader in readers:
        reader.start()
    try:
        yield addresses
    finally:
        shows_frames.set()
        process.send_signal(signal.SIGTERM)
        process.wait()
        for reader in readers:
            reader.join()


def say_that_it_starts(has_begun: threading.Event) -> None:
    """The first time takes longest, as Python compiles all there is."""
    began = time.monotonic()
    while not has_begun.wait(2):
        print_line(f"  … {time.monotonic() - began:.0f} s")


def address_of_dashboard() -> str:
    """The usual one, or any if that is taken."""
    host, _, port = DASHBOARD.partition(":")
    try:
        socket.create_server((host, int(port))).close()
    except OSError:
        return f"{host}:0"
    return DASHBOARD


def show_log(lines: IO[str], shows: threading.Event) -> None:
    for line in lines:
        event = json.loads(line)
        what = " ".join(f"{key}={value}" for key, value in event.items() if key not in ("event", "level", "timestamp"))
        if shows.is_set() or event["level"] != "info":
            print_line(f"   log: {event['event']}  {what}")


def show_frames(lines: IO[str], shows: threading.Event) -> None:
    for line in lines:
        if shows.is_set():
            print(line, end="", flush=True)


def connected(address: str, name: str = "") -> pika.BlockingConnection:
    host, port = address.split(":")
    properties = {"connection_name": name} if name else {}
    return pika.BlockingConnection(pika.ConnectionParameters(host, int(port), client_properties=properties))


def send_traffic(address: str) -> None:
    """One client's day: declare, publish with confirms, a returned message, get, acknowledge, an error."""
    connection = connected(address)
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.confirm_delivery()
    properties = pika.BasicProperties(content_type="application/json", headers={"tenant": "acme", "retries": 3})
    for number in range(2):
        channel.basic_publish("", queue, json.dumps({"order": number}).encode(), properties)
    with suppress(pika.exceptions.UnroutableError):
        channel.basic_publish("amq.topic", "no.consumer", b"lost?", mandatory=True)
    for method, _, _ in channel.consume(queue, inactivity_timeout=1):
        if method is None:
            break
        channel.basic_ack(method.delivery_tag)
        if method.delivery_tag == 2:
            break
    channel.cancel()
    other = connection.channel()
    with suppress(pika.exceptions.ChannelClosedByBroker):
        other.queue_declare("no-such-queue", passive=True)
    connection.close()


def sell(address: str, stop: threading.Event) -> None:
    """A shop that takes orders, until it is stopped."""
    with connected(address, "shop") as connection:
        channel = connection.channel()
        channel.exchange_declare("demo.orders", "topic", auto_delete=True)
        channel.queue_declare("demo.warehouse", auto_delete=True)
        channel.queue_bind("demo.warehouse", "demo.orders", "order.*")
        channel.confirm_delivery()
        number = 0
        while not stop.is_set():
            number += 1
            order = {"order": number, "item": random.choice(["tea", "coffee", "cocoa"]), "pieces": random.randint(1, 9)}
            properties = pika.BasicProperties(
                content_type="application/json", message_id=f"order-{number}", headers={"tenant": "acme"}
            )
            channel.basic_publish("demo.orders", f"order.{order['item']}", json.dumps(order).encode(), properties)
            connection.process_data_events(random.expovariate(ORDERS_A_SECOND))


def ship(address: str, stop: threading.Event) -> None:
    """A warehouse that takes its time, and now and then refuses."""
    with connected(address, "warehouse") as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=10)
        for method, _, _ in channel.consume("demo.warehouse", inactivity_timeout=0.5):
            if stop.is_set():
                return
            if method is not None:
                connection.process_data_events(random.expovariate(3 * ORDERS_A_SECOND))
                if random.random() < 0.05:
                    channel.basic_nack(method.delivery_tag, requeue=not method.redelivered)
                else:
                    channel.basic_ack(method.delivery_tag)


def main() -> None:
    stop, shows_frames = threading.Event(), threading.Event()
    shows_frames.set()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    upstream = os.environ.get("AMQPROXY_UPSTREAM", "broker")
    name = "the integrated broker" if upstream == "broker" else upstream
    print_line(f"The proxy starts in front of {name}, with its dashboard:")
    with proxy(upstream, shows_frames) as addresses:
        address = addresses["listening"]
        print_line(f"It listens on {address}. A client's day through it:\n")
        send_traffic(address)
        stop.wait(0.5)  # for the last lines
        shows_frames.clear()
        print_line(f"""
That was one client: → is what it sent, ← what the broker sent; secrets are masked. From now on a shop and its
warehouse go on, which the dashboard shows.

  See it live, in a browser         {addresses["dashboard"]}
  Send your own client through it   amqp://guest:guest@{address}/
  See the counters                  curl http://{addresses["metrics"]}/metrics
  The same in front of your broker  .venv/bin/amqproxy run --upstream HOST:5672 --print --dashboard
  Decode a capture                  .venv/bin/amqproxy decode captures/*.pcapng
  All there is                      .venv/bin/amqproxy --help

Ctrl-C ends the demo.""")
        work = [threading.Thread(target=each, args=(address, stop)) for each in (sell, ship)]
        work[0].start()
        stop.wait(0.5)
        work[1].start()
        stop.wait()
        print_line("\nStopping …")
        for each in work:
            each.join()


if __name__ == "__main__":
    main()
