"""The records of a capture."""

from __future__ import annotations

from collections.abc import Iterator

from amqproxy.capture.byte_window import OnRead, ignore_read
from amqproxy.capture.decode import BOTH_LEGS, read_decoded
from amqproxy.capture.decoded import records_of
from amqproxy.capture.files import Sources
from amqproxy.capture.second_engine import SecondEngine
from amqproxy.capture.warnings import OnWarning, ignore_warning
from amqproxy.taps.record import Record


def read_records(
    sources: Sources,
    notify: OnWarning = ignore_warning,
    on_read: OnRead = ignore_read,
    *,
    leg: str = "client",
    engine: SecondEngine | None = None,
) -> Iterator[Record]:
    """The records of a capture, one per frame: the output of `decode --json`."""
    for each in read_decoded(sources, notify, on_read, leg=leg, engine=engine):
        yield from records_of(each, has_both_legs=leg == BOTH_LEGS)
