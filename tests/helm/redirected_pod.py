"""A pod whose connections to a broker elsewhere are redirected to a proxy in it: docs/howto/debug-in-kubernetes.md.

    unshare --net --mount --pid --fork --mount-proc --kill-child python -m tests.helm.redirected_pod 4|6 DIRECTORY

Pod and broker are network namespaces with a link between them; all of it ends with this process. The rules of iptables
and the options of the proxy are those of the page. As root.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.real.poll import until

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "howto" / "debug-in-kubernetes.md").read_text()

ADDRESSES = {"4": ("10.77.0.1/24", "10.77.0.2/24"), "6": ("fd77::1/64", "fd77::2/64")}
"""Of the pod and of the broker."""

PROXY_USER = "10001"
"""The user of the image."""


def main(family: str, directory: Path) -> None:
    pod, broker = ADDRESSES[family]
    address = broker.partition("/")[0]
    lay_link(pod, broker)
    (directory / "hosts").write_text(f"127.0.0.1 localhost\n{address} rabbitmq\n")
    run("mount", "--bind", str(directory / "hosts"), "/etc/hosts")
    (directory / "definitions.json").write_text(json.dumps(DEFINITIONS))
    host = f"[{address}]" if ":" in address else address
    serve = ["broker", "--listen", f"{host}:5672", "--definitions", str(directory / "definitions.json")]
    start(["ip", "netns", "exec", "broker", *AMQPROXY, *serve], directory / "broker.log")

    before = Client()
    # It needs no right of the image; this one is to read sources that may belong to root alone.
    drop = ["--clear-groups", "--inh-caps=-all,+dac_override", "--ambient-caps=-all,+dac_override"]
    options = on_page(r"-- amqproxy (run --listen .+)")
    log = directory / "proxy.log"
    if family == "6":
        options = [option.replace("127.0.0.1", "[::1]") for option in options]
    user = [f"--reuid={PROXY_USER}", f"--regid={PROXY_USER}"]
    proxy = start(["setpriv", *user, *drop, *AMQPROXY, *options], log)
    rules = [on_page(rf"(iptables -t nat -{action} [^#\n]+)") for action in "AIF"]
    if family == "6":
        rules = [["ip6tables", *rule[1:]] for rule in rules]

    run(*rules[0])
    before.publish("open-before")
    during = Client()
    during.publish("redirected")
    until(lambda: "routing_key=redirected" in log.read_text(), "the proxy to see what a new connection publishes")
    assert "open-before" not in log.read_text(), "what was open before stays as it is"
    before.close()
    again = Client()
    again.publish("anew")
    until(lambda: "routing_key=anew" in log.read_text(), "the proxy to see the client that connected anew")
    again.close()

    run(*rules[1])
    during.publish("still-here")
    until(lambda: "routing_key=still-here" in log.read_text(), "the proxy to keep what it has")
    after = Client()
    after.publish("direct")
    proxy.terminate()  # `kill 1` in its container
    assert during.closing_code() == 320
    assert proxy.wait(60) == 0
    run(*rules[2])
    after.publish("direct")
    after.close()
    assert "routing_key=direct" not in log.read_text()


AMQPROXY = [sys.executable, "-m", "amqproxy"]

SALT = b"salt"
DEFINITIONS = {
    "users": [
        {
            "name": "shop",
            "password_hash": base64.b64encode(SALT + hashlib.sha256(SALT + b"shop").digest()).decode(),
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": [],
        }
    ],
    "vhosts": [{"name": "/"}],
    "permissions": [{"user": "shop", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
}
"""The user guest may log in from the broker's own machine only."""


class Client:
    """A connection to rabbitmq:5672, which knows of no proxy."""

    def __init__(self) -> None:
        parameters = pika.ConnectionParameters(
            "rabbitmq",
            5672,
            credentials=pika.PlainCredentials("shop", "shop"),
            connection_attempts=100,
            retry_delay=0.1,
        )
        self._connection = pika.BlockingConnection(parameters)
        self._channel: BlockingChannel = self._connection.channel()
        self._channel.confirm_delivery()

    def publish(self, routing_key: str) -> None:
        self._channel.basic_publish("", routing_key, b"")

    def closing_code(self) -> int:
        """Return the code with which the peer closes the connection."""
        try:
            until(lambda: self._connection.process_data_events(0.1), "the connection to be closed")
        except pika.exceptions.ConnectionClosed as error:
            return int(error.reply_code)
        raise AssertionError

    def close(self) -> None:
        self._connection.close()


def lay_link(pod: str, broker: str) -> None:
    """Join this network namespace to a new one named `broker`."""
    run("mount", "--make-rprivate", "/")
    run("mount", "-t", "tmpfs", "tmpfs", "/run")
    run("ip", "netns", "add", "broker")
    run("ip", "link", "add", "pod", "type", "veth", "peer", "name", "eth0", "netns", "broker")
    for place, device, address in (((), "pod", pod), (("-n", "broker"), "eth0", broker)):
        run("ip", *place, "address", "add", address, "dev", device, *(["nodad"] if ":" in address else []))
        for each in ("lo", device):
            run("ip", *place, "link", "set", each, "up")


def on_page(pattern: str) -> list[str]:
    """Return the words of a command of the page."""
    (found,) = re.findall(pattern, PAGE.replace("\\\n", " "))
    return shlex.split(found)


def run(*command: str) -> None:
    subprocess.run(command, check=True)


def start(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a program, and wait until it listens."""
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)

    def listens() -> bool:
        assert process.poll() is None, log.read_text()
        return "listening" in log.read_text()

    until(listens, f"{log.stem} to listen")
    return process


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
