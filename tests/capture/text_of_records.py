"""Lines for a person, as they are written from bytes, and as records make them."""

from __future__ import annotations

from amqproxy.capture.decoded import Decoded, records_of
from amqproxy.capture.text_lines import TextLines
from amqproxy.taps.text import line


def by_records(passed: list[Decoded], body: int, *, has_both_legs: bool = False) -> str:
    records = [record for each in passed for record in records_of(each, body=body, has_both_legs=has_both_legs)]
    return "".join([f"{line(record)}\n" for record in records])


def written(passed: list[Decoded], body: int, *, has_both_legs: bool = False) -> str:
    lines = TextLines(body, has_both_legs=has_both_legs)
    counts = [lines.add(each) for each in passed]
    taken = lines.take()
    assert taken.count(b"\n") == sum(counts)
    assert (lines.take(), lines.size) == (b"", 0)
    return taken.decode()
