"""Round trips of a second client while another floods a proxy with rules, with small commands of either protocol.

All clients are in the proxy's event loop, without a pump, and the integrated broker is behind it. The second client
sends itself messages over 0-9-1, whichever protocol the flood uses.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import ExecutionSync
from amqproxy.amqp010.commands import QueueDeclare as QueueDeclare010
from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import QueueDeclare
from amqproxy.control import ControlClient
from bench import peers, talk, talk_0_10
from bench.fairness import PATIENCE, Felt, Stage, felt_during
from bench.fairness_proxy import rows
from bench.report import SUBJECT, Row, progress

SECTION = "Fairness of the proxy under a flood: a second client's round trip meanwhile"
QUEUE, OTHER = "flood", "flood-other"
AT_ONCE = 1000
HELD = 2.0
"""Seconds for which the rules hold a command, or a channel is paused."""

ABOUT_OTHERS = '[[rules]]\nname = "others"\naction = "refuse"\nmatch = {routing_key = "nowhere"}\n'
HOLD = f"""
[[rules]]
name = "held"
action = "hold"
match = {{method = "queue.declare", queue = "{QUEUE}"}}
timeout = {HELD}
on_timeout = "pass"
"""
LIMIT = f"""
[[rules]]
name = "limited"
action = "limit"
match = {{routing_key = "{OTHER}"}}
of = "messages"
rate = {1 / HELD}
burst = 1
"""


class Flood(NamedTuple):
    """A client's flood through a proxy with `rules`; all commands after `first` may have to wait for it.

    With `is_paused`, the client's channel is paused while the flood is sent.
    """

    name: str
    size: int
    rules: str
    first: str = ""
    is_paused: bool = False


FLOODS = (
    Flood("behind a paused channel", 178_000, ABOUT_OTHERS, is_paused=True),
    Flood("behind a held command", 178_000, HOLD, "declare"),
    Flood("behind a limit of messages", 100_000, LIMIT, "publish"),
    Flood("small commands, a rule about others", 178_000, ABOUT_OTHERS),
)


class Flooder091:
    """A 0-9-1 client; its small commands are unroutable messages of two frames, all different within one write."""

    protocol = "0-9-1"

    def __init__(self, port: int, stack: ExitStack) -> None:
        self._sock = stack.enter_context(talk.connect(port))
        self._sock.settimeout(PATIENCE)
        talk.ask(self._sock, [QueueDeclare(queue=OTHER, auto_delete=True)])
        self._first = {
            "declare": encode_method(1, QueueDeclare(queue=QUEUE, auto_delete=True)),
            "publish": 2 * talk.publish(bytes(16), routing_key=OTHER),
        }
        self._answers = 0
        self._small = [talk.publish(b"", exchange="amq.fanout", routing_key=f"{n:03}") for n in range(AT_ONCE)]

    def send_first(self, kind: str) -> None:
        """Send the command that a rule matches."""
        self._answers += kind == "declare"
        self._sock.sendall(self._first[kind])

    def flood(self, count: int) -> None:
        """Send `count` frames, and a method after them that the broker answers."""
        for start in range(0, count // 2, AT_ONCE):
            self._sock.sendall(b"".join(self._small[: count // 2 - start]))
        self._answers += 1
        self._sock.sendall(encode_method(1, QueueDeclare(queue=OTHER, passive=True)))

    def wait(self) -> None:
        """Wait until the broker has processed everything."""
        for _ in range(self._answers):
            talk.read_payload(self._sock)


class Flooder010:
    """A 0-10 client, whose small commands are execution.sync commands without the sync flag."""

    protocol = "0-10"

    def __init__(self, port: int, stack: ExitStack) -> None:
        self._session = session = talk_0_10.Session(port, "/")
        stack.callback(session.sock.close)
        session.sock.settimeout(PATIENCE)
        session.call(QueueDeclare010(OTHER, auto_delete=True))
        self._first = {
            "declare": Assembly(talk_0_10.CHANNEL, QueueDeclare010(QUEUE, auto_delete=True)).encode(),
            "publish": talk_0_10.transfer(OTHER, 16, accepts=False),
        }
        self._small = Assembly(talk_0_10.CHANNEL, ExecutionSync()).encode()

    def send_first(self, kind: str) -> None:
        count = 2 if kind == "publish" else 1
        self._session.sock.sendall(count * self._first[kind])
        self._session.sent += count

    def flood(self, count: int) -> None:
        for start in range(0, count, AT_ONCE):
            self._session.sock.sendall(self._small * min(AT_ONCE, count - start))
        self._session.sent += count
        self._session.sync()
        self._session.sent += 1

    def wait(self) -> None:
        self._session.wait_completed(self._session.sent)


Flooder = Flooder091 | Flooder010


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """Yield four rows for each flood in each protocol."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream = stack.enter_context(peers.broker())
        for flood in FLOODS:
            for kind in (Flooder091, Flooder010):
                count = max(1, int(flood.size * min(1.0, scale)))
                name = f"{kind.protocol}, {flood.name}"
                progress(f"fairness: {name}, {count:,}")
                felt = _feel(upstream.port, directory, flood, kind, count)
                yield from rows(name, count, {SUBJECT: felt}, SECTION)


def _feel(upstream: int, directory: Path, flood: Flood, kind: Callable[[int, ExitStack], Flooder], count: int) -> Felt:
    config, control = directory / "flood.toml", directory / "flood.sock"
    config.write_text(f'threads = 0\ncontrol.path = "{control}"\n{flood.rules}')
    with peers.amqproxy(upstream, config) as proxy, ExitStack() as stack:
        flooder = kind(proxy.port, stack)
        stage = Stage(proxy, stack)
        with ControlClient(control) as client:
            session = min(each["session"] for each in client.ask("connections")["connections"])

        def act(stage: Stage) -> None:
            if flood.first:
                flooder.send_first(flood.first)
            if flood.is_paused:
                with ControlClient(control) as client:
                    client.ask("pause", session=session, channel=1)
            sending = threading.Thread(target=flooder.flood, args=(count,))
            sending.start()
            if flood.is_paused:
                time.sleep(HELD)
                with ControlClient(control) as client:
                    client.ask("resume", session=session, channel=1)
            sending.join()
            flooder.wait()

        return felt_during(stage, act)
