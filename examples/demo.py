"""`make demo`: the proxy in front of a broker, a real client through it, and what it saw of it.

Stays up until Ctrl-C, so that you can send your own client through it. The broker is the integrated
one, or yours with AMQPROXY_UPSTREAM=HOST:PORT.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pika


def print_line(text: str = "") -> None:
    print(text, flush=True)


@contextmanager
def proxy(upstream: str) -> Iterator[dict[str, str]]:
    """Where the proxy listens ("listening") and shows its metrics ("metrics"); its frames go to our output."""
    command = [sys.executable, "-m", "amqproxy", "run", "--upstream", upstream, "--print", "--log-format", "json"]
    command += ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stderr is not None
    addresses: dict[str, str] = {}
    for line in process.stderr:
        event = json.loads(line)
        addresses[event["event"]] = event.get("address", "")
        if event["event"] == "listening":
            break
    else:
        sys.exit(f"demo: the proxy did not start (exit code {process.wait()})")
    log = threading.Thread(target=show_log, args=(process.stderr,), daemon=True)
    log.start()
    try:
        yield addresses
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        log.join()


def show_log(lines: Iterator[str]) -> None:
    for line in lines:
        event = json.loads(line)
        what = " ".join(f"{key}={value}" for key, value in event.items() if key not in ("event", "level", "timestamp"))
        print_line(f"   log: {event['event']}  {what}")


def send_traffic(address: str) -> None:
    """One client's day: declare, publish with confirms, a returned message, get, acknowledge, an error."""
    host, port = address.split(":")
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, int(port)))
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


def main() -> None:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    upstream = os.environ.get("AMQPROXY_UPSTREAM", "broker")
    with proxy(upstream) as addresses:
        address = addresses["listening"]
        name = "the integrated broker" if upstream == "broker" else upstream
        print_line(f"The proxy listens on {address}, in front of {name}. A client's day through it:\n")
        send_traffic(address)
        stop.wait(0.5)  # for the last lines
        print_line(f"""
That was one client: → is what it sent, ← what the broker sent; secrets are masked.

  Send your own client through it   amqp://guest:guest@{address}/
  See the counters                  curl http://{addresses["metrics"]}/metrics
  The same in front of your broker  .venv/bin/amqproxy run --upstream HOST:5672 --print
  Decode a capture                  .venv/bin/amqproxy decode captures/*.pcapng
  All there is                      .venv/bin/amqproxy --help

Ctrl-C ends the demo.""")
        stop.wait()
        print_line("\nStopping …")


if __name__ == "__main__":
    main()
