"""Longest turns of a proxy's loop while readers join that are shown the state of all connections first."""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path

from amqproxy.amqp091.frame import HEARTBEAT, encode_frame, encode_method
from amqproxy.amqp091.methods import ChannelOpen, ConfirmSelect
from amqproxy.control import ControlClient
from bench import talk
from bench.loop_turns import begin, longest
from bench.peers import amqproxy, broker
from bench.report import SUBJECT, Goal, Row, progress

CONNECTIONS = 9_800
CHANNELS = 3
WIDE_CHANNELS = 10_000
AT_ONCE = 20
"""Connections that are opened together: more may exceed the broker's 10 s for a handshake on a busy machine."""

SECONDS = 5.0
"""Time in which each connection sends one frame, after which all states have been shown."""

TURN = Goal(5.0, is_most=True)
BEAT = encode_frame(HEARTBEAT, 0, b"")
BROKER = "[broker.limits]\nchannel_max = 65535\n"


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """Yield a row for very many connections, and one for very many channels of a single connection."""
    yield from _joined(int(CONNECTIONS * min(1.0, scale)), CHANNELS, rounds)
    yield from _joined(1, WIDE_CHANNELS, rounds)


def _joined(connections: int, channels: int, rounds: int) -> Iterator[Row]:
    name = f"{connections:,} by {channels:,} channels"
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        control, turns, config = (Path(directory, each) for each in ("control", "turns", "config.toml"))
        config.write_text(BROKER)
        upstream = stack.enter_context(broker(config=config))
        config.write_text(f'threads = 0\n[control]\npath = "{control}"\n')
        proxy = stack.enter_context(amqproxy(upstream.port, config, turns=turns))
        progress(f"joining: {name}")
        socks: list[socket.socket] = []
        while len(socks) < connections:
            count = min(AT_ONCE, connections - len(socks))
            socks += [stack.enter_context(each) for each in _opened(proxy.port, channels, count)]
        figures: dict[str, list[float]] = {"nobody joins": [], "a recording": [], SUBJECT: []}
        for number in range(max(1, rounds // 3)):
            begin(turns)
            _beat(socks)
            figures["nobody joins"].append(longest(turns))
            with ControlClient(control) as client:
                begin(turns)
                client.ask("record-start", settings={"directory": str(Path(directory, f"recording-{number}"))})
                _beat(socks)
                figures["a recording"].append(longest(turns))
                client.ask("record-stop")
            with ControlClient(control) as client:
                begin(turns)
                client.ask("subscribe", packets=True)
                _beat(socks)
                figures[SUBJECT].append(longest(turns))
        yield Row("Longest turn of the loop", f"{name}, a subscriber joins", "ms", figures, goal=TURN)


def _opened(port: int, channels: int, count: int) -> list[socket.socket]:
    """Open connections with channels in confirm mode, all of them step by step."""
    socks = [socket.create_connection(("127.0.0.1", port), talk.DEADLINE) for _ in range(count)]
    talk.open_together(socks, channel_max=65_535)
    opening = [encode_method(number, ChannelOpen()) for number in range(2, channels + 1)]
    opening += [encode_method(number, ConfirmSelect()) for number in range(1, channels + 1)]
    for some in talk.batched(opening, talk.AT_ONCE):
        for sock in socks:
            sock.sendall(b"".join(some))
        for sock in socks:
            for _ in some:
                talk.read_payload(sock)
    return socks


def _beat(socks: list[socket.socket]) -> None:
    """Send a frame on each connection, evenly in `SECONDS`; on a single one, several."""
    times = len(socks) if len(socks) > 10 else 100
    began = time.monotonic()
    for turn, sock in zip(range(times), cycle(socks)):
        time.sleep(max(0.0, began + turn * SECONDS / times - time.monotonic()))
        sock.sendall(BEAT)
    time.sleep(0.5)
