"""Recorded connections of Qpid's peers: what is reported of them, and what their own traces say of the same.

NAME.messages.jsonl.gz beside a capture is what `decode --messages --json` prints of it.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from random import Random
from typing import Any

import msgspec
import pytest

from amqproxy.amqp010.domains import ErrorCode
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import Decoded, DecodedProtocolHeader, StreamEnded
from amqproxy.capture.observed import observed
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.observer import ObserverSettings
from tests.amqp010 import recorded
from tests.amqp010.recorded import FOLDER, JMS, QPIDD, SESSIONS

Outcome = tuple[Any, ...]


@cache
def decoded(name: str) -> list[Decoded]:
    (path,) = FOLDER.glob(f"{name}.pcap*")
    return list(read_decoded(path))


def messages(passed: Iterable[Decoded]) -> list[MessageRecord]:
    return [each for each in observed(passed, ObserverSettings()) if isinstance(each, MessageRecord)]


def outcome(record: MessageRecord) -> Outcome:
    """A record without its times, which differ where packets do."""
    fields = msgspec.to_builtins(record)
    del fields["ts_ns"]
    fields.pop("seconds", None)
    return (json.dumps(fields, sort_keys=True),)


@pytest.mark.parametrize("name", SESSIONS)
def test_messages_are_as_they_were_checked(name: str) -> None:
    golden = gzip.decompress((FOLDER / f"{name}.messages.jsonl.gz").read_bytes())
    assert [each.to_json() for each in messages(decoded(name))] == golden.splitlines()


def test_transactions_end_as_the_program_ended_them() -> None:
    """It sent three that it committed and two that it rolled back, received two that it gave back, then all three."""
    found = messages(decoded("brokerj9.2__jms-010-tx"))
    assert Counter(each.outcome for each in found if each.type == "publish") == {"committed": 3, "rolled back": 2}
    received = Counter(each.outcome for each in found if each.type == "deliver" and each.queue == "jms.tx")
    assert received == {"recovered": 3, "acked": 3}  # one of the three was fetched, and not received
    assert sum(each.redelivered for each in found) == 2


def test_the_two_messages_of_a_transaction_and_a_branch_are_committed() -> None:
    found = [each for each in messages(decoded(QPIDD)) if each.type == "publish"]
    assert Counter((each.channel, each.outcome) for each in found) == {
        (1, "confirmed"): 5,
        (2, "committed"): 1,
        (3, "committed"): 1,
    }


# --- what the JMS client says of the same


class JMSTrace:
    """What the client's own trace says: how many it published, which deliveries it settled and how, and what failed."""

    def __init__(self, name: str) -> None:
        text = gzip.decompress((FOLDER / f"{name}.jms-trace.log.gz").read_bytes()).decode()
        lines = [line for line in text.splitlines() if line.startswith(("SEND", "RECV"))]
        self.published = sum("SEND" in line and " MessageTransfer(" in line for line in lines)
        self.delivered = sum("RECV" in line and " MessageTransfer(" in line for line in lines)
        self.settled = Counter[str]()
        for line in lines:
            found = re.search(r"SEND.* Message(Accept|Release|Reject)\(transfers=\{(.*?)\}", line)
            if found is not None:
                ranges = re.findall(r"\[(\d+), (\d+)\]", found[2])
                count = sum(int(last) - int(first) + 1 for first, last in ranges)
                self.settled[{"Accept": "acked", "Release": "recovered", "Reject": "rejected"}[found[1]]] += count
        exceptions = [re.search(r"ExecutionException\(errorCode=(\w+),", line) for line in lines]
        self.errors = Counter(ErrorCode[each[1]].value for each in exceptions if each is not None)
        self.sessions = sum("RECV" in line and " SessionAttached(" in line for line in lines)


@pytest.mark.parametrize("name", JMS)
def test_it_is_what_the_client_says(name: str) -> None:
    trace, found = JMSTrace(name), messages(decoded(name))
    deliveries = [each for each in found if each.type == "deliver"]
    assert sum(each.type == "publish" for each in found) == trace.published
    assert len(deliveries) == trace.delivered
    assert Counter(each.outcome for each in deliveries if each.outcome != "auto-acked") == trace.settled
    assert Counter(each.code for each in found if each.type == "channel" and each.code) == trace.errors
    assert sum(each.type == "channel" and each.outcome == "opened" for each in found) == trace.sessions
    assert not [each for each in found if each.type in ("settle", "error")]


# --- the same connections, seen otherwise


def recut(passed: Sequence[Decoded], random: Random) -> list[Decoded]:
    """The same, with the two directions of each connection out of step, and one frame a packet."""
    queues: dict[tuple[int, str], list[Decoded]] = {}
    ends: list[Decoded] = []
    for each in passed:
        if isinstance(each, StreamEnded):
            ends.append(each)
        elif isinstance(each, Amqp010DecodedFrames):
            for frame, number in zip(each.frames, each.command_ids, strict=True):
                one = msgspec.structs.replace(each, frames=[frame], command_ids=[number])
                queues.setdefault((each.stream, each.sender), []).append(one)
        elif isinstance(each, DecodedProtocolHeader):
            queues.setdefault((each.stream, each.sender), []).append(each)
    heads = [queues[place].pop(0) for place in queues]
    mixed: list[Decoded] = sorted(heads, key=lambda each: getattr(each, "sender", ""))
    while places := [place for place, queue in queues.items() if queue]:
        mixed.append(queues[random.choice(places)].pop(0))
    return mixed + ends


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", SESSIONS)
def test_packets_in_another_order_make_no_difference(name: str, seed: int) -> None:
    passed = decoded(name)
    expected = Counter(map(outcome, messages(passed)))
    found = Counter(map(outcome, messages(recut(passed, Random(seed)))))
    assert found == expected


@pytest.mark.parametrize("name", SESSIONS)
@pytest.mark.parametrize("part", [0.2, 0.5, 0.8])
def test_joined_in_the_middle_it_claims_nothing_that_is_wrong(name: str, part: float) -> None:
    passed = [each for each in decoded(name) if not isinstance(each, DecodedProtocolHeader)]
    known = {_place(each): each.outcome for each in messages(decoded(name))}
    for each in messages(passed[int(len(passed) * part) :]):
        if each.type in ("publish", "deliver") and each.outcome not in ("unknown", "open", "auto-acked"):
            assert each.outcome in known.values()
            if each.delivery_tag is not None:
                assert known.get(_place(each)) == each.outcome


@pytest.mark.parametrize("name", SESSIONS)
@pytest.mark.parametrize("part", [0.2, 0.5, 0.8])
def test_cut_short_what_was_open_is_open(name: str, part: float) -> None:
    passed = decoded(name)
    known = {_place(each): each.outcome for each in messages(passed)}
    for each in messages(passed[: int(len(passed) * part)]):
        if each.type in ("publish", "deliver"):
            assert each.outcome in (known[_place(each)], "open")


def _place(record: MessageRecord) -> Outcome:
    return (record.ts_ns, record.stream, record.channel, record.type, record.number, record.delivery_tag)


def test_every_direction_was_recorded() -> None:
    assert all(recorded.directions(name) for name in SESSIONS)
