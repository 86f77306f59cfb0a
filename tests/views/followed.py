"""What several of these tests decode."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import Decoded, records_of
from amqproxy.taps.record import Record
from tests.capture import golden


def decoded(name: str) -> list[Decoded]:
    return list(read_decoded(capture(name)))


def capture(name: str) -> Path:
    return next(golden.FOLDER.glob(f"{name}.pcapng*"))


def records(passed: Iterable[Decoded]) -> list[Record]:
    return [record for each in passed for record in records_of(each)]
