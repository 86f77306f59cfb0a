"""Decoding: the same octets through pamqp, and the same capture through tshark."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from amqproxy.amqp091.frames import BODY, HEADER, METHOD, FrameReader
from bench import recording
from bench.peers import program
from bench.report import SUBJECT, Goal, Missing, Row, in_turns, progress

MESSAGES = 200_000
CHUNK = 65_536
"""What is fed at a time, as a capture or a socket would."""

PAMQP_GOAL, TSHARK_GOAL = Goal(30.0), Goal(20.0)


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """Rows against pamqp and against tshark, in thousands of messages (contents) a second."""
    rounds = min(rounds, 5)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "bench.pcap")
        count, streams = recording.write(path, int(MESSAGES * scale))
        yield from _against_pamqp(streams, count, rounds)
        yield from _against_tshark(path, count, rounds)


def _against_pamqp(streams: list[bytes], count: int, rounds: int) -> Iterator[Row | str]:
    try:
        from pamqp import frame
    except ImportError:
        yield "pamqp is not installed (pip install pamqp)"
        return
    progress("decode: amqproxy and pamqp, from octets to typed frames")
    expected = _read(streams)
    if _unmarshal(frame.unmarshal, streams) != expected:
        raise ValueError("pamqp found other frames")
    jobs = {
        "pamqp": partial(_rate, count, partial(_unmarshal, frame.unmarshal, streams)),
        SUBJECT: partial(_rate, count, partial(_read, streams)),
    }
    yield Row("Decode", "octets to typed frames", "1000/s", in_turns(jobs, rounds), ("pamqp",), PAMQP_GOAL)


def _read(streams: list[bytes]) -> int:
    """Decode every frame; how many there are."""
    count = 0
    for octets in streams:
        reader = FrameReader(frame_max=0)
        for start in range(0, len(octets), CHUNK):
            for frame in reader.feed(octets[start : start + CHUNK]):
                if frame.kind == METHOD:
                    _ = frame.method
                elif frame.kind == HEADER:
                    _ = frame.header
                elif frame.kind == BODY:
                    _ = frame.payload
                count += 1
        if reader.error is not None:
            raise reader.error
    return count


def _unmarshal(unmarshal: Callable[[bytes], object], streams: list[bytes]) -> int:
    """The same with pamqp, which wants to be handed each frame: found here at the least cost that Python knows."""
    count = 0
    for octets in streams:
        position, end = 0, len(octets)
        while position < end:
            after = position + 8 + int.from_bytes(octets[position + 3 : position + 7])
            unmarshal(octets[position:after])
            position = after
            count += 1
    return count


def _against_tshark(path: Path, count: int, rounds: int) -> Iterator[Row | str]:
    try:
        tshark = program("tshark", "tshark")
    except Missing as lack:
        yield str(lack)
        return
    try:
        from amqproxy.capture.decode import read_records
    except ImportError:
        yield "amqproxy decodes no captures yet"
        return

    def decode() -> int:
        return sum(record.type == "header" for record in read_records(path))

    progress("decode: amqproxy and tshark, from a capture")
    found = decode()
    if found < count:
        raise ValueError(f"{found} contents found of {count}")
    empty = path.with_name("empty.pcap")
    recording.write(empty, 0)
    _dissect(tshark, empty)
    start = min(_seconds(partial(_dissect, tshark, empty)) for _ in range(3))
    jobs = {
        "tshark": partial(_rate, count, partial(_dissect, tshark, path), start),
        SUBJECT: partial(_rate, count, decode),
    }
    note = f"tshark's start, {start:.2f} s, not counted"
    figures = in_turns(jobs, rounds)
    yield Row("Decode", "capture to records", "1000/s", figures, ("tshark",), TSHARK_GOAL, note)


def _dissect(tshark: str, path: Path) -> None:
    """Full dissection in one pass, with little to print: what each packet holds of methods."""
    command = [tshark, "-n", "-r", str(path), "-d", f"tcp.port=={recording.PORT},amqp"]
    command += ["-T", "fields", "-e", "amqp.method.method"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ))


def _rate(count: int, work: Callable[[], object], overhead: float = 0.0) -> float:
    """Thousands of messages a second."""
    return count / (_seconds(work) - overhead) / 1000


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
