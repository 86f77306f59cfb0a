"""The messages and findings of one run, as they were reported live and as a capture of it shows them."""

import contextlib
import io
import json
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from amqproxy.cli.decode import decode
from amqproxy.taps.findings.process_inspector import PROCESS_DETECTORS
from tests.capture.building import ACK, FIN, RAW, RST, SYN, Timed, enhanced, interface, ipv4, option, section, tcp
from tests.real.poll import until
from tests.real.wire import Recorded

BODY = 64
"""Bytes of each body that are compared."""

REPORTING = ("--messages", "--findings", "--json", f"--body={BODY}")

HOST = "127.0.0.1"
SEGMENT = 60_000
"""Bytes in one packet of a capture."""

DEADLINE = 20.0
"""Seconds until what has happened is reported."""

Report = dict[str, Any]

ACROSS = frozenset(each.kind for each in PROCESS_DETECTORS)
"""Findings across connections: the proxy that reports live has seen those of earlier runs, and the capture has not."""

TIMES = ("ts_ns", "seconds", "stream")
"""Fields that differ between two observers of the same run: times, and numbers of connections."""


def assert_same_reports(recorded: list[Recorded], records: Path, start: int) -> None:
    """Check that the reports of these connections in `records`, from byte `start` on, are those of a capture."""
    expected = grouped(each for each in captured(recorded) if each.get("kind") not in ACROSS)
    names = {name_of(each) for each in recorded}
    assert {each["connection"] for group in expected.values() for each in group} == names

    def found() -> dict[str, list[Report]]:
        with records.open("rb") as file:
            file.seek(start)
            reports = list(parsed(file.readlines()))
        return grouped(each for each in reports if each["connection"] in names and each.get("kind") not in ACROSS)

    with contextlib.suppress(TimeoutError):
        until(lambda: found() == expected, "the reports to come", DEADLINE)
    live = found()
    assert live == expected, difference(live, expected)


def captured(recorded: list[Recorded]) -> Iterator[Report]:
    """Return the reports of `amqproxy decode` about these connections in a capture."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "run.pcapng"
        file.write_bytes(capture(recorded))
        return decoded(file)


def decoded(file: Path) -> Iterator[Report]:
    """Return the reports of `amqproxy decode` about a capture."""
    with contextlib.redirect_stdout(io.StringIO()) as output:
        decode(file, messages=True, findings=True, json=True, body=BODY)
    return parsed(output.getvalue().encode().splitlines(keepends=True))


def parsed(lines: list[bytes]) -> Iterator[Report]:
    """The reports in whole lines, without what differs between observers."""
    for line in lines:
        if not line.endswith(b"\n"):
            return
        report = json.loads(line)
        if report.get("outcome") != "pending":  # which is reported live only, and again with what became of it
            for each in report.get("evidence", ()):
                each.pop("stream", None)
            yield {key: value for key, value in report.items() if key not in TIMES}


def grouped(reports: Iterable[Report]) -> dict[str, list[Report]]:
    """Reports by what decides about their order: one direction of a channel, or what is found there."""
    groups: dict[str, list[Report]] = {}
    for each in reports:
        keys = ("connection", "channel", "type", "outcome", "from", "kind")
        groups.setdefault(" ".join(str(each.get(key, "")) for key in keys), []).append(each)
    return groups


def difference(live: dict[str, list[Report]], expected: dict[str, list[Report]]) -> str:
    """Where the reports part, in words."""
    lines = []
    for place in sorted(live.keys() | expected.keys()):
        ours, theirs = live.get(place, []), expected.get(place, [])
        if ours == theirs:
            continue
        lines.append(f"{place}: {len(ours)} live, {len(theirs)} in the capture")
        for one, other in zip([*ours, None], [*theirs, None], strict=False):
            if one != other:
                lines += [f"   live:    {one}", f"   capture: {other}"]
                break
    return "\n".join(lines)


# --- a capture of what was recorded


def name_of(recorded: Recorded) -> str:
    """The name of the connection in reports."""
    return "-".join(f"{HOST}:{port}" for port in recorded.ports)


def capture(recorded: list[Recorded]) -> bytes:
    """A pcapng file of the connections that the recorder made, in the order of its reads."""
    packets = sorted((packet for each in recorded for packet in packets_of(each)), key=lambda packet: packet[0])
    blocks = [section(), interface(RAW, options=option(9, b"\x09"))]
    return b"".join([*blocks, *(enhanced(ts_ns, data) for ts_ns, data in packets)])


def packets_of(recorded: Recorded) -> Iterator[Timed]:
    ours, theirs = recorded.ports
    streams = {True: bytes(recorded.to_server), False: bytes(recorded.to_client)}
    place = {True: 0, False: 0}

    def packet(payload: bytes = b"", *, is_from_client: bool, flags: int) -> bytes:
        source, target = (ours, theirs) if is_from_client else (theirs, ours)
        seq, ack = place[is_from_client], place[not is_from_client]
        begun = not flags & SYN  # which counts as one byte
        segment = tcp(payload, source=source, target=target, seq=seq + begun, ack=ack + 1, flags=flags)
        return ipv4(segment, source=HOST, target=HOST)

    if not recorded.reads:
        return
    begin = recorded.reads[0].ts_ns
    yield begin, packet(is_from_client=True, flags=SYN)
    yield begin, packet(is_from_client=False, flags=SYN | ACK)
    for ts_ns, is_from_client, size, is_reset in recorded.reads:
        if not size:
            yield ts_ns, packet(is_from_client=is_from_client, flags=(RST if is_reset else FIN) | ACK)
        for start in range(0, size, SEGMENT):
            begun = place[is_from_client]
            payload = streams[is_from_client][begun : begun + min(SEGMENT, size - start)]
            yield ts_ns, packet(payload, is_from_client=is_from_client, flags=ACK)
            place[is_from_client] += len(payload)
