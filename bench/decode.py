"""Decoding: the same bytes through pamqp, and the same capture through tshark.

All three use a single thread, so CPU seconds are measured, which other load on the machine does not affect.
"""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

from amqproxy.amqp010 import frame_reader as amqp010_reader
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.json_lines import JSONLines
from bench import recording, recording_0_10
from bench.peers import program
from bench.report import SUBJECT, Goal, Missing, Row, in_turns, progress

MESSAGES = 200_000
CHUNK = 65_536
"""Bytes that are fed at a time, as by a capture or a socket."""

PAMQP_GOAL, TSHARK_GOAL = Goal(30.0), Goal(20.0)


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """Yield rows against pamqp and against tshark, in thousands of messages (contents) per CPU second."""
    rounds = min(rounds, 3)  # CPU seconds vary little
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "bench.pcap")
        count, streams = recording.write(path, int(MESSAGES * max(scale, 0.5)))
        yield from _against_pamqp(streams, count, rounds)
        yield from _against_tshark(path, streams, count, rounds)
        count, streams = recording_0_10.write(path, int(MESSAGES * max(scale, 0.5)))
        yield from _of_0_10(path, streams, count, rounds)


def _against_pamqp(streams: list[bytes], count: int, rounds: int) -> Iterator[Row | str]:
    try:
        from pamqp import frame
    except ImportError:
        yield "pamqp is not installed (pip install pamqp)"
        return
    progress("decode: amqproxy and pamqp, from bytes to typed frames")
    if _unmarshal(frame.unmarshal, streams) != _read(streams):
        raise ValueError("pamqp found other frames")
    jobs = {
        "pamqp": partial(_rate, count, partial(_unmarshal, frame.unmarshal, streams)),
        SUBJECT: partial(_rate, count, partial(_read, streams)),
    }
    yield Row("Decode", "bytes to typed frames", "1000/s", in_turns(jobs, rounds), ("pamqp",), PAMQP_GOAL)


def _read(streams: list[bytes]) -> int:
    """Decode every frame, and return their number."""
    count = 0
    for data in streams:
        reader = FrameReader(frame_max=0)
        for start in range(0, len(data), CHUNK):
            count += _decode(reader.feed(data[start : start + CHUNK]))
        if reader.error is not None:
            raise reader.error
    return count


def _decode(frames: Sequence[Frame]) -> int:
    """Decode the contents of each frame: a method, a header with its properties, or bytes of a body."""
    for frame in frames:
        _ = frame.value
    return len(frames)


def _unmarshal(unmarshal: Callable[[bytes], object], streams: list[bytes]) -> int:
    """Decode with pamqp, which takes single frames; they are cut here at the least cost possible in Python."""
    count = 0
    for data in streams:
        position, end = 0, len(data)
        while position < end:
            after = position + 8 + int.from_bytes(data[position + 3 : position + 7])
            unmarshal(data[position:after])
            position = after
            count += 1
    return count


def _against_tshark(path: Path, streams: list[bytes], count: int, rounds: int) -> Iterator[Row | str]:
    try:
        tshark = program("tshark", "tshark")
    except Missing as lack:
        yield str(lack)
        return
    empty = path.with_name("empty.pcap")
    recording.write(empty, 0)

    def bare() -> float:
        return count / (dissect(tshark, path, BARE) - dissect(tshark, empty, BARE)) / 1000

    def full() -> float:
        return count / (dissect(tshark, path, FULL) - dissect(tshark, empty, FULL)) / 1000

    progress("decode: amqproxy and tshark, from bytes to typed frames")
    figures = in_turns({"tshark": bare, SUBJECT: partial(_rate, count, partial(_read, streams))}, rounds)
    note = "tshark reads the capture; its start is not counted"
    yield Row("Decode", "bytes to typed frames", "1000/s", figures, ("tshark",), TSHARK_GOAL, note)

    def to_frames() -> int:
        return sum(_decode(passed.frames) for passed in read_decoded(path) if isinstance(passed, Amqp091DecodedFrames))

    progress("decode: amqproxy and tshark, from a capture to typed frames")
    figures = in_turns({"tshark": bare, SUBJECT: partial(_rate, count, to_frames)}, rounds)
    yield Row("Decode", "capture to typed frames", "1000/s", figures, ("tshark",), TSHARK_GOAL)
    progress("decode: amqproxy and tshark, from a capture to JSON")
    figures = in_turns({"tshark": full, SUBJECT: partial(_rate, count, _lines_job(path, count))}, rounds)
    yield Row("Decode", "capture to lines of JSON", "1000/s", figures, ("tshark",), TSHARK_GOAL)


def _lines_job(path: Path, count: int) -> Callable[[], None]:
    """Return a function that writes a capture's JSON lines; `ValueError` if it has not `count` contents."""
    with path.with_name("lines.jsonl").open("w+b") as lines:
        write_lines(path, lines)
        lines.seek(0)
        found = sum(b'"type":"header"' in line for line in lines)
    if found != count:
        raise ValueError(f"{found} contents found of {count}")

    def to_lines() -> None:
        with Path(os.devnull).open("wb") as output:
            write_lines(path, output)

    return to_lines


def _of_0_10(path: Path, streams: list[bytes], count: int, rounds: int) -> Iterator[Row | str]:
    """Yield rows for AMQP 0-10, where a message is a transfer and its acceptance or completion."""
    try:
        tshark = program("tshark", "tshark")
    except Missing as lack:
        yield str(lack)
        return
    empty = path.with_name("empty.pcap")
    recording_0_10.write(empty, 0)

    def bare() -> float:
        return count / (dissect(tshark, path, BARE) - dissect(tshark, empty, BARE)) / 1000

    def full() -> float:
        return count / (dissect(tshark, path, FULL) - dissect(tshark, empty, FULL)) / 1000

    progress("decode: amqproxy and tshark, from bytes of AMQP 0-10 to typed frames")
    figures = in_turns({"tshark": bare, SUBJECT: partial(_rate, count, partial(_read_0_10, streams))}, rounds)
    note = "tshark reads the capture; its start is not counted"
    yield Row("Decode", "AMQP 0-10, bytes to typed frames", "1000/s", figures, ("tshark",), TSHARK_GOAL, note)
    progress("decode: amqproxy and tshark, from a capture of AMQP 0-10 to JSON")
    figures = in_turns({"tshark": full, SUBJECT: partial(_rate, count, _lines_job(path, count))}, rounds)
    yield Row("Decode", "AMQP 0-10, capture to lines of JSON", "1000/s", figures, ("tshark",), TSHARK_GOAL)


def _read_0_10(streams: list[bytes]) -> int:
    """Decode every 0-10 frame, and return their number."""
    count = 0
    for data in streams:
        reader = amqp010_reader.FrameReader(frame_max=0)
        for start in range(0, len(data), CHUNK):
            frames = reader.feed(data[start : start + CHUNK])
            for frame in frames:
                _ = frame.value
            count += len(frames)
        if reader.error is not None:
            raise reader.error
    return count


def write_lines(path: Path, output: BinaryIO) -> None:
    """Write JSON lines like `decode --json`."""
    lines = JSONLines()
    for passed in read_decoded(path):
        if lines.add(passed):
            output.write(lines.take())


BARE = ("-T", "fields", "-e", "amqp.method.method")
"""Options for the least work of tshark: one pass that dissects all of AMQP and prints next to nothing."""

FULL = ("-T", "ek", "-j", "amqp")
"""Options for a line of JSON per packet, with every AMQP field and no other."""


def dissect(tshark: str, path: Path, how: tuple[str, ...]) -> float:
    """Return the CPU seconds that tshark uses."""
    command = [tshark, "-n", "-r", str(path), "-d", f"tcp.port=={recording.PORT},amqp", *how]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _rate(count: int, work: Callable[[], object]) -> float:
    """Return thousands of messages per CPU second."""
    began = time.process_time()
    work()
    return count / (time.process_time() - began) / 1000
