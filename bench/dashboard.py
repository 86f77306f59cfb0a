"""The cost of a dashboard to the relay, with three browsers that show all frames, and of subscribers alone."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from bench import relay
from bench.peers import amqproxy, listener
from bench.report import SUBJECT, Goal, Row, in_turns, progress

UNWATCHED = "nobody looks"
BROWSERS = 3
GOAL = Goal(0.9)
URL = re.compile(r"http://[\d.]+:\d+/")


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """Yield a row for each kind of observer."""
    with listener() as listening, ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        control = directory / "control"
        config = directory / "amqproxy.toml"
        config.write_text(f'threads = 0\n[control]\npath = "{control}"\n')
        proxy = stack.enter_context(amqproxy(listening.getsockname()[1], config))
        flow, volume = relay.LOADS[0], int(4e9 * scale)
        run = partial(relay.throughput, listening, proxy, flow, volume)

        def beside(watching: Callable[[Path], Any]) -> float:
            with watching(control):
                time.sleep(1.0)  # until the observer has read the earlier traffic
                return run()

        run()
        for name, watching in (
            (f"a dashboard with {BROWSERS} browsers", dashboard),
            ("a subscriber to packets", partial(subscriber, packets=True)),
            ("a subscriber to frames", partial(subscriber, frames=True)),
        ):
            progress(f"dashboard: {name}")
            figures = in_turns({UNWATCHED: run, SUBJECT: partial(beside, watching)}, rounds)
            goal = GOAL if watching is dashboard else None
            yield Row("Dashboard", f"{flow.name}, {name}", "MB/s", figures, (UNWATCHED,), goal)


@contextmanager
def dashboard(control: Path) -> Iterator[None]:
    """Run `amqproxy dashboard`, with browsers that show all frames live."""
    command = [sys.executable, "-m", "amqproxy", "dashboard", "--connect", str(control), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process, ExitStack() as stack:
        stack.callback(process.terminate)
        assert process.stderr is not None
        found = next(filter(None, map(URL.search, process.stderr)))
        threading.Thread(target=process.stderr.read, daemon=True).start()
        for _ in range(BROWSERS):
            stack.enter_context(_browser(found[0]))
        yield


@contextmanager
def _browser(url: str) -> Iterator[None]:
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect
    from websockets.typing import Origin

    address = url.replace("http", "ws") + "api/v1/live"
    with connect(address, origin=Origin(url.rstrip("/")), close_timeout=1) as viewer:

        def show() -> None:
            with suppress(ConnectionClosed):
                for message in viewer:
                    if str(message).startswith('{"type":"batch"'):
                        viewer.send('{"type":"more","view":"a","credit":1}')

        look = {"type": "view", "view": "a", "source": 0, "what": "frames", "filter": "", "after": None}
        viewer.send(json.dumps({**look, "credit": 2, "max_age": 1}))
        thread = threading.Thread(target=show)
        thread.start()
        yield
        viewer.close()
        thread.join()


@contextmanager
def subscriber(control: Path, **what: bool) -> Iterator[None]:
    """Run a subscriber that reads everything."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(control))
        sock.sendall(json.dumps({"request": "subscribe", **what}).encode() + b"\n")

        def read() -> None:
            while sock.recv(1 << 16):
                pass

        thread = threading.Thread(target=read)
        thread.start()
        yield
        sock.shutdown(socket.SHUT_RDWR)
        thread.join()
