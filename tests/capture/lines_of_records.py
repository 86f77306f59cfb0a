"""Lines of JSON, as they are written from bytes, and as records make them."""

from __future__ import annotations

from amqproxy.capture.decoded import Decoded, records_of
from amqproxy.capture.json_lines import JSONLines


def by_records(passed: list[Decoded], body: int, *, has_both_legs: bool = False) -> bytes:
    records = [record for each in passed for record in records_of(each, body=body, has_both_legs=has_both_legs)]
    return b"".join([record.to_json() + b"\n" for record in records])


def written(passed: list[Decoded], body: int, *, has_both_legs: bool = False) -> bytes:
    lines = JSONLines(body, has_both_legs=has_both_legs)
    counts = [lines.add(each) for each in passed]
    taken = lines.take()
    assert taken.count(b"\n") == sum(counts)
    assert (lines.take(), lines.size) == (b"", 0)
    return taken
