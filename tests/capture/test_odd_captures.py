"""Whatever a capture holds, reading it ends in records or in a `CaptureError`: with filters and rules, too."""

import gzip
import io
import random
from contextlib import suppress
from itertools import chain
from pathlib import Path

import pytest

from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import records_of
from amqproxy.capture.dry_run import DryRun
from amqproxy.capture.filtering import filtered
from amqproxy.capture.warnings import CaptureError
from amqproxy.configuration.config_file import parse
from amqproxy.rules.matching.filters import compiled
from amqproxy.taps import text
from amqproxy.taps.record import encoded

CAPTURES = Path(__file__).parents[2] / "captures"
LARGE = 200_000
"""Bytes of a capture that would take too long."""

FILTERS = (
    "time.getHours() == 3",
    "size > 10 || body.contains('x')",
    "headers.x.y == 1",
    "json.a == 1",
    "fields.arguments.x == 1",
    "1 / size > 0",
    "int(body) > 1",
    "client.properties.capabilities.x",
    "properties.priority + 9223372036854775807 > 0",
)
RULES = """
rules:
- {name: a, action: refuse, mode: shadow, when: "size > 10 && body.contains('x')"}
- {name: b, action: refuse, mode: shadow, match: {method: "basic.*", queue: "q*"}}
- {name: c, action: rewrite, match: {method: basic.publish}, headers: {set: {x: "{client.address}"}}}
- {name: d, action: log, text: "{user} {method} {exchange} {routing_key}"}
"""


def bytes_of(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def mutated(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice([1, 2, 5, 30, 200])):
        at = chance.randrange(len(changed))
        kind = chance.random()
        if kind < 0.6:
            changed[at] = chance.choice([0, 255, 0x80, chance.randrange(256)])
        elif kind < 0.9:
            changed[at : at + 4] = chance.randbytes(4)
        else:
            del changed[len(changed) - chance.randrange(min(len(changed) - 30, 500)) :]
    return bytes(changed)


def read(data: bytes, filter_: str | None) -> None:
    passed = read_decoded(io.BytesIO(data))
    with suppress(CaptureError):
        for record in chain.from_iterable(map(records_of, filtered(passed, compiled(filter_)) if filter_ else passed)):
            assert text.line(record).isprintable()
            record.to_json()


def rehearse(data: bytes) -> None:
    rehearsal = DryRun(parse(RULES, Path("rules.yaml")).rules)
    with suppress(CaptureError):
        for passed in read_decoded(io.BytesIO(data)):
            if isinstance(passed, Amqp091DecodedFrames):
                for rehearsed in rehearsal.play(passed):
                    str(rehearsed)
                    encoded(rehearsed)


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("*.pcap*")), ids=lambda path: path.name)
def test_mutations(path: Path) -> None:
    data = bytes_of(path)
    if len(data) > LARGE:
        data = data[:LARGE]
    chance = random.Random(path.name)
    rehearse(data)
    for filter_ in (None, *FILTERS):
        read(data if filter_ is None else mutated(data, chance), filter_)
        rehearse(mutated(data, chance))
