"""`make demo`: a broker, the proxy in front of it, real clients through it, and what it saw of them.

Stays up until Ctrl-C, so that you can send your own client through it. AMQPROXY_UPSTREAM=HOST:PORT
names a broker of yours to use; without it, a private RabbitMQ is started if there is one installed.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pika

sys.path.insert(0, str(Path(__file__).parent.parent))


def say(text: str = "") -> None:
    print(text, flush=True)


@contextmanager
def broker() -> Iterator[str]:
    """HOST:PORT of a broker for the while."""
    named = os.environ.get("AMQPROXY_UPSTREAM")
    if named:
        yield named
        return
    if not (shutil.which("rabbitmqctl") or Path("/usr/lib/rabbitmq/bin").exists()):
        sys.exit(
            "demo: there is no RabbitMQ here, and it could not be installed.\n"
            "As root: apt-get install rabbitmq-server; or name a broker: AMQPROXY_UPSTREAM=HOST:PORT make demo"
        )
    from tests.real.rabbitmq import RabbitMQ

    say("Starting a private RabbitMQ (about ten seconds) …")
    with tempfile.TemporaryDirectory(prefix="amqproxy-demo-") as directory:
        node = RabbitMQ(Path(directory))
        try:
            node.start()
            yield f"127.0.0.1:{node.port}"
        finally:
            node.stop()


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
        say(f"   log: {event['event']}  {what}")


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
        channel.basic_publish("amq.topic", "nobody.listens", b"lost?", mandatory=True)
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
    with broker() as upstream, proxy(upstream) as addresses:
        address = addresses["listening"]
        say(f"The proxy listens on {address}, in front of {upstream}. A client's day through it:\n")
        send_traffic(address)
        stop.wait(0.5)  # for the last lines
        say(f"""
That was one client: → is what it said, ← what the broker did; secrets are masked.

  Send your own client through it   amqp://guest:guest@{address}/
  See the counters                  curl http://{addresses["metrics"]}/metrics
  The same in front of your broker  .venv/bin/amqproxy run --upstream HOST:5672 --print
  Decode a capture                  .venv/bin/amqproxy decode captures/*.pcapng
  All there is                      .venv/bin/amqproxy --help

Ctrl-C ends the demo.""")
        stop.wait()
        say("\nStopping …")


if __name__ == "__main__":
    main()
