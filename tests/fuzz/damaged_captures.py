"""Captures that are damaged and cut anew at random, through all that is compiled of reading, showing and relaying.

    python -m tests.fuzz.damaged_captures --seconds 60

It is made to be run with a sanitizer (`tests.pump.sanitizer`), which sees where compiled code reads or writes what is
not its own. What has to hold besides: lines are those that records make, columns are valid, and a pump passes on only
what has come. The first failure ends it, and names its seed: `--from` that one is the same case again.
"""

from __future__ import annotations

import argparse
import gzip
import io
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import count
from random import Random

from amqproxy.amqp010.frame import BODY, OVERHEAD
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.arrow import record_batches
from amqproxy.capture.decode import Decoder, read_decoded
from amqproxy.capture.decoded import Decoded
from amqproxy.capture.files import read_packets
from amqproxy.capture.packets import Dissector
from amqproxy.capture.reassembly import Reassembler
from amqproxy.capture.stream_events import Closed, Data, Event, Gap, Opened, StreamEnd
from amqproxy.capture.warnings import CaptureError
from amqproxy.pump.pumps import are_available
from amqproxy.taps.metering.amqp010.meter import Amqp010Meter
from amqproxy.taps.metering.amqp091.message_meter import MessageMeter
from amqproxy.taps.metering.message_counts import MessageCounts
from tests.amqp010 import recorded
from tests.capture import golden, lines_of_records, text_of_records
from tests.pump.amqp010.rig import Amqp010Wire, amqp010_pump
from tests.pump.rig import Wire, pump

LARGE = 400_000
"""Bytes of a file above which it is left out: one case would take long."""

MOST_EVENTS = 150
"""Events of a capture that a case has, in a row."""

EXTREMES = (0, 1, 0x7F, 0x80, 0xFE, 0xFF)


@cache
def files() -> list[bytes]:
    """The captures, plain; those of AMQP 0-10 are as many as the others together."""
    found = {path: path.read_bytes() for path in (*golden.captures(), *recorded.captures())}
    plain = {path: gzip.decompress(data) if path.suffix == ".gz" else data for path, data in found.items()}
    small = {path: data for path, data in plain.items() if len(data) <= LARGE}
    newer = [data for path, data in small.items() if path.parent == recorded.FOLDER]
    older = [data for path, data in small.items() if path.parent != recorded.FOLDER]
    return older + newer * (len(older) // len(newer))


@cache
def events_of(number: int) -> list[Event]:
    """What TCP carried in a file."""
    dissector, reassembler = Dissector(), Reassembler()
    found: list[Event] = []
    for packet in read_packets(io.BytesIO(files()[number])):
        segment = dissector.segment(packet)
        if segment is not None:
            found += reassembler.feed(segment)
    return [*found, *reassembler.finish()]


def damaged(data: bytes, dice: Random, most: int = 4) -> bytes:
    """The same with a few bytes changed, put in, left out or repeated."""
    found = bytearray(data)
    for _ in range(dice.randint(1, most)):
        at = dice.randint(0, len(found))
        size = dice.choice((1, 1, 2, 4, 12, 100))
        match dice.randint(0, 5):
            case 0 if at < len(found):
                found[at] ^= 1 << dice.randint(0, 7)
            case 1:
                found[at : at + size] = bytes([dice.choice(EXTREMES)]) * min(size, len(found) - at)
            case 2:
                del found[at : at + size]
            case 3:
                found[at:at] = dice.randbytes(size)
            case 4:
                found[at:at] = found[max(0, at - size) : at]
            case _:
                del found[at:]
    return bytes(found)


def cut(data: bytes, dice: Random) -> Iterator[bytes]:
    """The same in pieces."""
    size = dice.choice((1, 5, 13, 100, 4096, 1 << 20))
    at = 0
    while at < len(data):
        step = dice.randint(1, size)
        yield data[at : at + step]
        at += step


def damaged_events(dice: Random) -> list[Event]:
    """A part of a capture, with some of its bytes damaged, some lost, and all cut anew."""
    events = events_of(dice.randrange(len(files())))
    first = dice.choice((0, 0, dice.randrange(len(events))))
    opened = [each for each in events[:first] if isinstance(each, Opened)]
    found: list[Event] = [*opened]
    for event in events[first : first + MOST_EVENTS]:
        if not isinstance(event, Data):
            found.append(event)
            continue
        data = event.data
        if dice.random() < 0.1:
            data = damaged(data, dice)
        if dice.random() < 0.02:
            found.append(Gap(event.stream, event.direction, event.ts_ns, dice.choice((0, 1, 100, 70_000))))
        found += [Data(event.stream, event.direction, event.ts_ns, piece) for piece in cut(data, dice)]
    for each in {event.stream: event for event in found if isinstance(event, Opened)}.values():
        found += [Closed(each.stream, direction, each.ts_ns, StreamEnd.END) for direction in (0, 1)]
    return found


def show(passed: list[Decoded], dice: Random) -> None:
    """As lines, as columns, and as what a meter counts."""
    body, both = dice.choice((0, 7, 1000)), dice.random() < 0.2
    assert lines_of_records.written(passed, body, has_both_legs=both) == lines_of_records.by_records(
        passed, body, has_both_legs=both
    )
    assert text_of_records.written(passed, body, has_both_legs=both) == text_of_records.by_records(
        passed, body, has_both_legs=both
    )
    for batch in record_batches(passed, rows=dice.choice((3, 65_536)), body=body, arguments=dice.random() < 0.5):
        batch.validate(full=True)
    meter = Amqp010Meter(MessageCounts())
    for each in passed:
        if isinstance(each, Amqp010DecodedFrames):
            frames = [frame.raw for frame in each.frames if not frame.lost]
            is_cut = dice.random() < 0.5
            if is_cut:
                frames = [raw[:OVERHEAD] if raw[1] == BODY else raw for raw in frames]
            meter.feed(each.sender == "server", b"".join(frames), each.ts_ns * 1e-9, is_cut)
    meter.close()


def damaged_stream(dice: Random) -> None:
    """One that decodes, and is shown."""
    decoder = Decoder()
    show([passed for event in damaged_events(dice) for passed in decoder.feed(event)], dice)


def damaged_file(dice: Random) -> None:
    """One that is read, as far as it can be, and is shown."""
    data = damaged(files()[dice.randrange(len(files()))], dice, 20)
    passed: list[Decoded] = []
    with suppress(CaptureError):
        for each in read_decoded(io.BytesIO(data)):
            passed.append(each)
    show(passed, dice)


def damaged_relay(dice: Random) -> None:
    """What a pump is given of both peers, with the channels that there are or others."""
    events = damaged_events(dice)
    data = [b"".join(each.data for each in events if isinstance(each, Data) and each.direction == at) for at in (0, 1)]
    is_newer = data[0].startswith(HEADER) or dice.random() < 0.3
    channels, most = dice.choice(((1, 2), (0, 1), (7,))), dice.choice((0, 1, 3, 50))
    meter = Amqp010Meter(MessageCounts()) if is_newer else MessageMeter(MessageCounts())
    wire = (
        Amqp010Wire(amqp010_pump(most_frames=most), channels, meter.feed, frame_max=0xFFFF)
        if is_newer
        else Wire(pump(most_frames=most), channels, meter.feed)
    )
    try:
        skipped = [dice.choice((8, 8, 0, dice.randint(0, len(each)))) for each in data]
        sent = [damaged(each[at:], dice) for each, at in zip(data, skipped, strict=True)]
        pieces = [list(cut(each[:65_536], dice)) for each in sent]
        wire.hand_over()
        while any(pieces) and wire.lease is not None and wire.lease.is_pumped:
            place = dice.choice([at for at in (0, 1) if pieces[at]])
            with suppress(BlockingIOError):
                (wire.client, wire.server)[place].send(pieces[place].pop(0))
            wire.settle()
        wire.settle()
        for place, seen in enumerate(reversed(wire.seen)):
            assert sent[place].startswith(seen)
    finally:
        wire.close()


CASES: Sequence[Callable[[Random], None]] = (
    (damaged_stream, damaged_file, damaged_relay) if are_available() else (damaged_stream, damaged_file)
)


def run(seed: int) -> None:
    """The case of a seed."""
    dice = Random(seed)
    dice.choice(CASES)(dice)


def main() -> None:
    """What the options say."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.damaged_captures", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    for seed in count(options.first):
        if time.monotonic() > end:
            print(f"{seed - options.first:,} damaged captures, none of which did any harm")
            break
        try:
            run(seed)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


if __name__ == "__main__":
    main()
