"""Reading captures, beside other tools that read them; and a large capture in bounded memory."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from amqproxy.capture.decode import read_decoded
from amqproxy.capture.files import read_packets
from amqproxy.capture.packets import Dissector
from amqproxy.capture.reassembly import Reassembler
from amqproxy.capture.stream_events import Data
from bench import recording
from bench.decode import FULL, dissect, write_lines
from bench.peers import program
from bench.report import SUBJECT, Goal, Missing, Row, in_turns, progress

MESSAGES = 200_000
JOBS_MESSAGES = 40_000
"""Messages of four interleaved connections, for one process and for two; text output is slow."""
FEW_MESSAGES = 2_000
"""Messages for pyshark, which is slow."""

ARROW_GOAL = Goal(2.0)
JOBS_GOAL = Goal(1.3)
LARGE_BYTES = 2_000_000_000
LARGE_GOAL = Goal(128.0, is_most=True)
"""Limit in MiB on the memory of the decoding process."""


def measure(rounds: int, scale: float) -> Iterator[Row | str]:
    """Yield rows against our own JSON, one process, dpkt, pcaptoparquet and pyshark, in CPU seconds where possible."""
    rounds = min(rounds, 3)  # CPU seconds vary little
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "bench.pcap")
        count, streams = recording.write(path, int(MESSAGES * max(scale, 0.5)))
        for compared in (_arrow, _jobs, _against_dpkt, _against_pcaptoparquet, _against_pyshark):
            try:
                yield from compared(path, count, sum(map(len, streams)), rounds)
            except (ImportError, Missing) as lack:
                yield str(lack)


def measure_large(rounds: int, scale: float) -> Iterator[Row | str]:
    """Yield a row for the memory of decoding 2 GB, beside a small capture; it runs only if it is named."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "bench.pcap")
        progress(f"captures: writing {LARGE_BYTES / 1e9:g} GB")
        recording.write(path, MESSAGES // 4)
        figures = {"a small one": [_peak_mib(path)]}
        recording.write_large(path, LARGE_BYTES, MESSAGES)
        progress("captures: memory while they are decoded")
        figures[SUBJECT] = [_peak_mib(path)]
        yield Row("Captures", "decode --json of 2 GB, peak", "MiB", figures, goal=LARGE_GOAL, less_is_better=True)


def _peak_mib(path: Path) -> float:
    process = subprocess.Popen(
        [sys.executable, "-m", "amqproxy", "decode", "--json", str(path)], stdout=subprocess.DEVNULL
    )
    peak = 0
    watched = psutil.Process(process.pid)
    while process.poll() is None:
        try:
            peak = max(peak, watched.memory_info().rss)
        except psutil.Error:
            break
        time.sleep(0.02)
    if process.wait():
        raise ValueError("the capture could not be decoded")
    return peak / 2**20


# --- our own


def _arrow(path: Path, count: int, size: int, rounds: int) -> Iterator[Row | str]:
    from amqproxy.capture.arrow import record_batches

    def to_arrow() -> int:
        return sum(batch.num_rows for batch in record_batches(read_decoded(path)))

    progress("captures: to Arrow, and to lines of JSON")
    jobs = {"our JSON": partial(_rate, count, partial(_to_json, path)), SUBJECT: partial(_rate, count, to_arrow)}
    yield Row("Captures", "capture to Arrow", "1000/s", in_turns(jobs, rounds), ("our JSON",), ARROW_GOAL)
    tshark = program("tshark", "tshark")
    empty = path.with_name("empty.pcap")
    recording.write(empty, 0)

    def by_tshark() -> float:
        return count / (dissect(tshark, path, FULL) - dissect(tshark, empty, FULL)) / 1000

    figures = in_turns({"tshark": by_tshark, SUBJECT: partial(_rate, count, to_arrow)}, 1)
    yield Row("Captures", "capture to Arrow, tshark to JSON", "1000/s", figures, ("tshark",), Goal(20.0))


def _to_json(path: Path) -> None:
    with Path(os.devnull).open("wb") as output:
        write_lines(path, output)


def _jobs(path: Path, count: int, size: int, rounds: int) -> Iterator[Row | str]:
    def decoded(*options: str) -> float:
        began = time.monotonic()
        command = [sys.executable, "-m", "amqproxy", "decode", *options, str(path)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return count / (time.monotonic() - began) / 1000

    interleaved = path.with_name("interleaved.pcap")
    recording.write(interleaved, JOBS_MESSAGES, is_interleaved=True)
    count, path = JOBS_MESSAGES, interleaved
    for name, options in (("text", []), ("messages", ["--messages"])):
        progress(f"captures: {name}, by one process and by two")
        jobs = {"one process": partial(decoded, *options), SUBJECT: partial(decoded, *options, "--jobs", "2")}
        note = "by the clock, with its start"
        yield Row("Captures", f"{name}, --jobs 2", "1000/s", in_turns(jobs, 1), ("one process",), JOBS_GOAL, note)


# --- beside other tools


def _against_dpkt(path: Path, count: int, size: int, rounds: int) -> Iterator[Row | str]:
    import dpkt

    def by_dpkt() -> int:
        total = 0
        with path.open("rb") as file:
            for _, packet in dpkt.pcap.Reader(file):
                total += len(dpkt.ethernet.Ethernet(packet).data.data.data)
        return total

    def ours() -> int:
        """Count the payload bytes; unlike dpkt's reader, this also reassembles the streams in order."""
        dissector, reassembler, total = Dissector(), Reassembler(), 0
        for packet in read_packets(path):
            segment = dissector.segment(packet)
            if segment is not None:
                total += sum(len(each.data) for each in reassembler.feed(segment) if isinstance(each, Data))
        return total

    progress("captures: TCP payloads, beside dpkt")
    if by_dpkt() != ours():
        raise ValueError("dpkt found other payloads")
    jobs = {"dpkt": partial(_rate, size / 1000, by_dpkt), SUBJECT: partial(_rate, size / 1000, ours)}
    figures = in_turns(jobs, rounds)
    yield Row("Captures", "capture to TCP payloads", "MB/s", figures, ("dpkt",), Goal(5.0), "ours in order, too")


def _against_pcaptoparquet(path: Path, count: int, size: int, rounds: int) -> Iterator[Row | str]:
    import pcaptoparquet  # noqa: F401 - it is run as a command
    import pyarrow as pa
    from pyarrow import parquet

    from amqproxy.capture.arrow import record_batches, schema

    written = path.with_suffix(".parquet")
    command = [str(Path(sys.executable).with_name("pcaptoparquet")), "-i", str(path), "-o", str(written)]
    start = [*command[:1], "--version"]

    def by_pcaptoparquet() -> float:
        return packets / (_cpu_of(command) - _cpu_of(start)) / 1000

    def ours() -> None:
        with parquet.ParquetWriter(written, schema(), compression="snappy") as file:
            for batch in record_batches(read_decoded(path)):
                file.write_table(pa.Table.from_batches([batch]))

    progress("captures: to Parquet, beside pcaptoparquet")
    packets = sum(1 for _ in read_packets(path))
    figures = in_turns({"pcaptoparquet": by_pcaptoparquet, SUBJECT: partial(_rate, packets, ours)}, rounds)
    note = f"packets; it writes a row for each, and we {4 * count // packets}, a row for each frame"
    yield Row("Captures", "capture to Parquet", "1000/s", figures, ("pcaptoparquet",), Goal(1.0), note)


def _against_pyshark(path: Path, count: int, size: int, rounds: int) -> Iterator[Row | str]:
    import pyshark  # noqa: F401 - checks that it is installed; a child process uses it

    few = path.with_name("few.pcap")
    few_count, _ = recording.write(few, FEW_MESSAGES)
    empty = path.with_name("empty.pcap")
    recording.write(empty, 0)

    def by_pyshark() -> float:
        code = (
            "import sys, pyshark\n"
            f"capture = pyshark.FileCapture(sys.argv[1], decode_as={{'tcp.port=={recording.PORT}': 'amqp'}})\n"
            "print(sum(len(packet.get_multiple_layers('amqp')) for packet in capture))\n"
            "capture.close()\n"
        )
        command = [sys.executable, "-W", "ignore", "-c", code]
        return few_count / (_cpu_of([*command, str(few)]) - _cpu_of([*command, str(empty)])) / 1000

    progress("captures: to JSON, beside pyshark's layers")
    jobs: dict[str, Callable[[], float]] = {
        "pyshark": by_pyshark,
        SUBJECT: partial(_rate, count, partial(_to_json, path)),
    }
    note = f"pyshark reads {few_count} messages"
    yield Row("Captures", "capture to JSON, or layers", "1000/s", in_turns(jobs, 1), ("pyshark",), Goal(100.0), note)


def _cpu_of(command: list[str]) -> float:
    """Return the CPU seconds of a command and of the processes that it waits for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _rate(count: float, work: Callable[[], Any]) -> float:
    """Return thousands per CPU second of this process."""
    began = time.process_time()
    work()
    return count / (time.process_time() - began) / 1000
