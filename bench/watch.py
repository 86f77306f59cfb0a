"""The cost of observing: the same floods with message counting on and off, and with a follower."""

from __future__ import annotations

import gc
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import repeat
from pathlib import Path
from statistics import quantiles

import psutil

from amqproxy.amqp091.frame import encode_method, every_frame
from amqproxy.amqp091.methods import (
    BasicConsume,
    BasicConsumeOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
)
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.control import ControlClient
from amqproxy.taps.metering.amqp091.message_meter import MessageMeter
from amqproxy.taps.metering.message_counts import MessageCounts
from amqproxy.taps.trace.amqp091.connection_trace import Trace
from bench import joining, latency, load, relay, talk
from bench.peers import Proxy, amqproxy, listener, placements
from bench.report import SUBJECT, Goal, Row, in_turns, progress

UNCOUNTED, UNWATCHED, UNRECORDED = "not counted", "nobody follows", "not recorded"
COUNTED_GOAL = Goal(0.85)
FOLLOWED_GOAL = Goal(0.7)
RECORDED_GOAL = Goal(0.85)
PACED_GOAL = Goal(1.15, is_most=True)
MESSAGE = talk.publish(bytes(100))
METERED_GOAL = Goal(16 * 1024, is_most=True)
TRACED_GOAL = Goal(40 * 1024, is_most=True)
SIZED = 200
"""Connections whose memory is measured together."""

PACED_CONNECTIONS = 20
PACE = 0.01
"""Seconds between two messages of a connection."""

SLOW_SUBSCRIBERS = 3
MICROSECOND = 1e-6


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """Yield rows for counting, a follower at full speed, recording, slow followers, joining readers, and memory."""
    yield from remembered()
    with listener() as listening, ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream = listening.getsockname()[1]
        uncounted = stack.enter_context(_configured(upstream, directory / "uncounted", "messages = false"))
        counted = stack.enter_context(_configured(upstream, directory / "counted", ""))
        volume = int(200e6 * scale)
        for name, job in (
            ("publish 100 B", partial(relay.throughput, listening, flow=relay.LOADS[0], volume=volume)),
            ("deliver 100 B", partial(relay.throughput, listening, flow=relay.DELIVERIES, volume=volume)),
            ("publish 100 B with confirms", partial(confirmed, listening, volume=volume // 2)),
        ):
            progress(f"watch: {name}, messages counted")
            jobs: dict[str, Callable[[], float]] = {
                UNCOUNTED: partial(job, proxy=uncounted),
                SUBJECT: partial(job, proxy=counted),
            }
            for each in jobs.values():
                each()
            yield Row("Watch", f"{name}, counted", "MB/s", in_turns(jobs, rounds), (UNCOUNTED,), COUNTED_GOAL)
        progress("watch: a tail at full speed")
        yield followed(listening, counted, directory / "counted.sock", 10 * volume, rounds)
        yield from recorded(listening, upstream, directory, volume, rounds)
        progress("watch: slow subscribers")
        yield from beside_slow(listening, counted, directory / "counted.sock", rounds, scale)
    yield from joining.measure(rounds, scale)


@contextmanager
def _configured(upstream: int, path: Path, metrics: str) -> Iterator[Proxy]:
    """Run a proxy with a control socket beside its config, and these settings of its metrics.

    It has no pumps, so that the event loop relays the bytes in both of the compared cases.
    """
    config = path.with_suffix(".toml")
    config.write_text(f'threads = 0\n[metrics]\naddress = "127.0.0.1:0"\n{metrics}\n[control]\npath = "{path}.sock"\n')
    with amqproxy(upstream, config) as proxy:
        yield proxy


def confirmed(listening: socket.socket, proxy: Proxy, volume: int) -> float:
    """Return megabytes of confirmed publishes per second; each basic.ack confirms all that the broker read at once."""
    data = load.fill(MESSAGE)
    times = max(1, volume // len(data))
    count = times * (len(data) // len(MESSAGE))

    def broker() -> list[float]:
        sock, _ = listening.accept()
        talk.answer(sock, confirms=True)
        left, got = times * len(data), 0
        while left:
            received = len(sock.recv(min(left, load.BUFFER)))
            left, got = left - received, got + received
            if got >= len(MESSAGE):
                sock.sendall(talk.ack(got // len(MESSAGE), multiple=True))
        return load.sink([sock], 0)

    def client() -> list[float]:
        sock = talk.connect(proxy.port)
        talk.select_confirms(sock)
        acknowledgement = talk.ack(count, multiple=True)
        reading = threading.Thread(target=_read_until, args=(sock, acknowledgement))
        reading.start()
        began = time.monotonic()
        for _ in repeat(None, times):
            sock.sendall(data)
        reading.join()
        ended = time.monotonic()
        load.flood([sock], b"", 0)
        return [ended - began]

    _, (seconds,) = load.side_by_side(broker, client)
    return times * len(data) / seconds / relay.MEGABYTE


def _read_until(sock: socket.socket, last: bytes) -> None:
    """Read frames up to the last expected one."""
    end = b""
    while not end.endswith(last):
        data = sock.recv(load.BUFFER)
        if not data:
            raise ValueError("closed too early")
        end = (end + data)[-len(last) :]


def followed(listening: socket.socket, proxy: Proxy, control: Path, volume: int, rounds: int) -> Row:
    """Measure throughput while `amqproxy tail` follows all frames, and the number of frames that it missed."""
    flow = relay.LOADS[0]

    def with_tail() -> float:
        command = [sys.executable, "-m", "amqproxy", "tail", "--socket", str(control), "--json"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as tail:
            time.sleep(1.0)  # until it has subscribed
            rate = relay.throughput(listening, proxy, flow, volume)
            tail.terminate()
        return rate

    before = _dropped(control)
    jobs: dict[str, Callable[[], float]] = {
        UNWATCHED: partial(relay.throughput, listening, proxy, flow, volume),
        SUBJECT: with_tail,
    }
    figures = in_turns(jobs, rounds)
    frames = 3 * rounds * volume // len(MESSAGE)
    note = f"of about {frames / 1e6:.1f} M frames it missed {(_dropped(control) - before) / 1e6:.1f} M, and said so"
    return Row("Watch", "publish 100 B, a tail follows", "MB/s", figures, (UNWATCHED,), FOLLOWED_GOAL, note)


def recorded(listening: socket.socket, upstream: int, directory: Path, volume: int, rounds: int) -> Iterator[Row]:
    """Measure throughput while all traffic is recorded, on both legs and on the client leg only; disks may be slow."""
    unrecorded = directory / "unrecorded"
    with ExitStack() as stack:
        jobs: dict[str, Proxy] = {UNRECORDED: stack.enter_context(_configured(upstream, unrecorded, ""))}
        for legs in ("client", "both"):
            settings = (
                f'[record]\ndirectory = "{directory / legs}"\nlegs = "{legs}"\ncompress = false\ntotal_size = "1GiB"'
            )
            jobs[legs] = stack.enter_context(_configured(upstream, directory / f"recorded-{legs}", settings))
        for name, flow in (("publish 100 B", relay.LOADS[0]), ("deliver 100 B", relay.DELIVERIES)):
            for legs, goal in (("client", RECORDED_GOAL), ("both", RECORDED_GOAL)):
                progress(f"watch: {name}, recorded, legs = {legs}")
                dropped = _dropped(directory / f"recorded-{legs}.sock")
                runs = {
                    UNRECORDED: partial(relay.throughput, listening, jobs[UNRECORDED], flow, volume),
                    SUBJECT: partial(relay.throughput, listening, jobs[legs], flow, volume),
                }
                for each in runs.values():
                    each()
                figures = in_turns(runs, rounds)
                frames = (_dropped(directory / f"recorded-{legs}.sock") - dropped) / 1e6
                note = f"legs = {legs}; {frames:.1f} M frames were dropped, and counted"
                title = f"{name}, recorded ({legs})"
                yield Row("Watch", title, "MB/s", figures, (UNRECORDED,), goal, note)
        progress("watch: CPU of a message at a steady rate, recorded")
        turns = max(50, volume // 1_000_000)
        spent = {
            UNRECORDED: partial(paced, listening, jobs[UNRECORDED], turns),
            SUBJECT: partial(paced, listening, jobs["both"], turns),
        }
        title = f"{PACED_CONNECTIONS / PACE:,.0f} messages/s, recorded, CPU of each"
        yield Row("Watch", title, "µs", in_turns(spent, rounds), (UNRECORDED,), PACED_GOAL, less_is_better=True)


def paced(listening: socket.socket, proxy: Proxy, turns: int) -> float:
    """Return a proxy's CPU microseconds per message, with several connections that publish one at intervals."""

    def broker() -> list[float]:
        socks = []
        for _ in range(PACED_CONNECTIONS):
            sock, _ = listening.accept()
            talk.answer(sock)
            socks.append(sock)
        return load.sink(socks, turns * len(MESSAGE))

    def client() -> list[float]:
        socks = [talk.connect(proxy.port) for _ in range(PACED_CONNECTIONS)]
        time.sleep(0.2)
        before = _cpu_seconds(proxy)
        began = time.monotonic()
        for turn in range(turns):
            for number, sock in enumerate(socks):
                due = began + (turn + number / PACED_CONNECTIONS) * PACE
                time.sleep(max(0.0, due - time.monotonic()))
                sock.sendall(MESSAGE)
        time.sleep(0.2)  # until pending records have been written
        spent = _cpu_seconds(proxy) - before
        load.flood(socks, b"", 0)
        return [spent]

    _, (seconds,) = load.side_by_side(broker, client)
    return seconds / (turns * PACED_CONNECTIONS) / MICROSECOND


def _cpu_seconds(proxy: Proxy) -> float:
    """Return the CPU seconds of the proxy's process."""
    times = psutil.Process(proxy.pid).cpu_times()
    return float(times.user + times.system)


def _dropped(control: Path) -> float:
    """Return the number of records that slow subscribers missed."""
    with ControlClient(control) as client:
        samples = client.ask("stats")["metrics"]
    return sum(float(each["value"]) for each in samples if each["name"] == "amqproxy_records_dropped_total")


def beside_slow(listening: socket.socket, proxy: Proxy, control: Path, rounds: int, scale: float) -> Iterator[Row]:
    """Measure round trips beside subscribers that never read, that read a byte a second, and that come and go."""
    times = max(200, int(2_000 * scale))
    anywhere = placements()[0]

    def p99(trips: list[float]) -> float:
        return quantiles(trips, n=100)[98] / MICROSECOND

    def alone() -> float:
        return p99(latency.round_trips(listening, proxy, times, anywhere))

    def beside() -> float:
        with ExitStack() as stack:
            is_over = threading.Event()
            for _ in range(SLOW_SUBSCRIBERS):
                stack.enter_context(_subscribed(control))
            for slow in (_drip, _come_and_go):
                thread = threading.Thread(target=slow, args=(control, is_over))
                thread.start()
                stack.callback(thread.join)
            stack.callback(is_over.set)
            return p99(latency.round_trips(listening, proxy, times, anywhere))

    figures = in_turns({UNWATCHED: alone, SUBJECT: beside}, rounds)
    yield Row("Watch", "p99 beside slow subscribers", "µs", figures, (UNWATCHED,), less_is_better=True)


@contextmanager
def _subscribed(control: Path) -> Iterator[socket.socket]:
    """Open a subscription to all frames that does not read."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(control))
        sock.sendall(json.dumps({"request": "subscribe", "frames": True}).encode() + b"\n")
        sock.recv(1)
        yield sock


def _drip(control: Path, is_over: threading.Event) -> None:
    with _subscribed(control) as sock:
        while not is_over.wait(1.0):
            sock.recv(1)


def _come_and_go(control: Path, is_over: threading.Event) -> None:
    while not is_over.wait(0.05):
        with _subscribed(control):
            pass


def remembered() -> Iterator[Row]:
    """Measure the bytes kept for a connection with ten channels, each with a consumer and open messages.

    Each channel has one open delivery and one open publish. Measured are the meter, which every session has, and the
    trace, which followed sessions have.
    """
    progress("watch: memory of a connection with ten channels")
    conversation = list(_conversation(10))
    counts = MessageCounts()

    def metered() -> object:
        meter = MessageMeter(counts)
        for is_server, data in conversation:
            meter.feed(is_server, data, 1.0)
        return meter

    def traced() -> object:
        trace = Trace()
        trace.feed_protocol_header(0)
        for is_server, data in conversation:
            trace.feed(SERVER if is_server else CLIENT, every_frame(data, 0), 1)
        return trace

    for name, make, goal in (("counted", metered, METERED_GOAL), ("traced", traced, TRACED_GOAL)):
        row = f"10 channels, all with something open, {name}"
        yield Row("Memory of what is watched", row, "B", {SUBJECT: [_size_of(make)]}, goal=goal, less_is_better=True)


def _conversation(channels: int) -> Iterator[tuple[bool, bytes]]:
    """Yield frames on `channels` channels, with `False` from the client and with `True` from the server."""
    for number in range(1, channels + 1):
        yield False, encode_method(number, ChannelOpen())
        yield True, encode_method(number, ChannelOpenOk())
        yield False, encode_method(number, ConfirmSelect())
        yield True, encode_method(number, ConfirmSelectOk())
        yield False, encode_method(number, BasicConsume(queue="bench", consumer_tag="bench"))
        yield True, encode_method(number, BasicConsumeOk("bench"))
        yield True, talk.delivery(bytes(100), channel=number)
        yield False, talk.publish(bytes(100), channel=number)


def _size_of(make: Callable[[], object]) -> float:
    """Return the average memory in bytes of the objects that `make` creates."""
    made = [make() for _ in range(10)]
    gc.collect()
    tracemalloc.start()
    made += [make() for _ in range(SIZED)]
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert made
    return size / SIZED
