"""Both engines over every capture there is: what they have different views of, and that all of it is known."""

import json
import struct
from collections import Counter
from pathlib import Path

import pytest

from amqproxy.amqp010.controls import SessionCommandPoint
from amqproxy.amqp010.frame import encode_method as encode_method_010
from amqproxy.amqp010.protocol_header import HEADER as HEADER_010
from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import encode_frame, encode_method
from amqproxy.amqp091.methods import BasicPublish, ChannelOpen, ConnectionUpdateSecret, ExchangeUnbindOk, QueueBind
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.wire import Table
from amqproxy.tshark import known_faults, verification
from amqproxy.tshark.amqp010 import known_faults as amqp010_faults
from amqproxy.tshark.verification import Counts, Difference, verified
from tests.amqp010 import recorded
from tests.capture import building, golden, shared_captures
from tests.cli.outcome import Amqproxy
from tests.real.require import require, require_module
from tests.replay.amqp010.recordings import transfer

pytestmark = pytest.mark.real

KNOWN = {
    "consume-large.joined-midway": {known_faults.HOLE: 19},
    "kombu-table": {known_faults.UNKNOWN_TYPES: 2},
    "kombu-table.broken": {known_faults.UNKNOWN_TYPES: 1, known_faults.FRAME_END: 3},
    "login-refused.octets": {known_faults.TINY_SEGMENTS: 3},
    "brokerj9.2__jms-010-errors": {
        amqp010_faults.SUBSCRIBE_ARGUMENTS: 5,
        amqp010_faults.TX: 1,
        amqp010_faults.BINDING_KEY: 5,
    },
    "brokerj9.2__jms-010-request-reply": {amqp010_faults.SUBSCRIBE_ARGUMENTS: 5, amqp010_faults.BINDING_KEY: 4},
    "brokerj9.2__jms-010-tx": {amqp010_faults.SUBSCRIBE_ARGUMENTS: 2, amqp010_faults.TX: 5},
    "brokerj9.2__jms-010-types": {amqp010_faults.SUBSCRIBE_ARGUMENTS: 2},
    "brokerj9.2__version-negotiation": {known_faults.OTHER_VERSION: 1, known_faults.FRAME_END: 4},
    "qpidd1.40__qpidpy-010-types": {
        amqp010_faults.BINDING_KEY: 3,
        amqp010_faults.VOID: 2,
        amqp010_faults.SUBSCRIBE_ARGUMENTS: 1,
        amqp010_faults.GIVEN_UP: 1,
        amqp010_faults.TX: 2,
        amqp010_faults.XID: 19,
        amqp010_faults.RESULTS: 5,
    },
    "rabbitmq3.10__proton-amqp10": {known_faults.OTHER_VERSION: 2},
    "rabbitmq3.10__qpidpy-0-8": {known_faults.OTHER_VERSION: 44},
    "rabbitmq3.10__version-negotiation": {
        known_faults.OTHER_VERSION: 1,
        known_faults.HEADER_VERSION: 4,
        known_faults.FRAME_END: 2,
    },
}
"""How often which fault shows, in captures where any does."""
BEHIND_HOLES = {"consume-large.dropped": 48, "consume-large.snapped": 51, "consume-large.joined-midway": 20}


@pytest.fixture(autouse=True)
def _tshark() -> None:
    require("tshark")
    require_module("pyshark")


def name_of(path: Path) -> str:
    return path.name.partition(".pcap")[0]


@pytest.mark.once
@pytest.mark.parametrize(
    "path",
    [*golden.captures(), *recorded.captures(), *shared_captures.files(without=recorded.NAMES)],
    ids=name_of,
)
def test_every_capture(path: Path) -> None:
    """Every frame of 0-9-1 and 0-10 is compared, and no difference is without a reason."""
    counts = Counts()
    found = list(verified(str(path), counts))
    assert [str(each) for each in found if each.known is None] == []
    assert Counter(each.known for each in found) == KNOWN.get(name_of(path), {})
    assert counts.not_compared == BEHIND_HOLES.get(name_of(path), 0)
    if path.parent == recorded.FOLDER:
        ours = sum(len(each.frames) for each in recorded.decoded(name_of(path)) if hasattr(each, "frames"))
        assert counts.compared == ours
    if path.parent == golden.FOLDER:
        lines = map(json.loads, golden.records_path(path).read_text().splitlines())
        frames = [record for record in lines if record["type"] not in ("protocol-header", "error")]
        only_ours = sum(each.tshark is None and "ERROR" not in str(each.ours) for each in found)
        malformed = [line for line in golden.records_path(path).read_text().splitlines() if '"code":502' in line]
        assert counts.compared + counts.not_compared + only_ours == len(frames) + len(malformed)


def capture_of(sent: bytes, header: bytes = HEADER) -> bytes:
    """A client that sends a protocol header, and then this."""
    segments = [
        building.tcp(flags=building.SYN, seq=99),
        building.tcp(header, seq=100),
        *(building.tcp(sent[at : at + 1400], seq=108 + at) for at in range(0, len(sent), 1400)),
    ]
    return building.pcapng([(index, building.ethernet(building.ipv4(each))) for index, each in enumerate(segments)])


def verify(tmp_path: Path, data: bytes) -> list[Difference]:
    path = tmp_path / "capture.pcapng"
    path.write_bytes(data)
    return list(verified(str(path), Counts()))


OPEN = encode_method(1, ChannelOpen())


def test_methods_that_tshark_has_no_name_for(tmp_path: Path) -> None:
    secret = encode_method(0, ConnectionUpdateSecret(new_secret=b"confidential", reason="r"))
    (difference, *more) = verify(tmp_path, capture_of(OPEN + secret + encode_method(1, ExchangeUnbindOk())))
    assert {each.known for each in (difference, *more)} == {known_faults.NO_NAME}
    assert "confidential" not in str([difference, *more])


def test_a_difference_that_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, amqproxy: Amqproxy) -> None:
    """A field, a frame that only one has, and a body: as if we decoded something else."""
    publish = Command(1, BasicPublish(exchange="e", routing_key="k"), body=b"body").encode(0)
    good, other = tmp_path / "good.pcapng", tmp_path / "other.pcapng"
    good.write_bytes(capture_of(OPEN + publish + OPEN))
    other.write_bytes(capture_of(OPEN + publish.replace(b"\1k", b"\1j").replace(b"body", b"bodY") + publish + OPEN))
    dissected = verification.dissected
    monkeypatch.setattr(verification, "dissected", lambda file, ports: dissected(str(other), ports))
    code, out, err = amqproxy("verify", str(good))
    assert code == 1
    assert "basic.publish on channel 1, 11 bytes: routing_key: we have 'k', tshark has 'j'" in out
    assert "body on channel 1, 4 bytes: payload: we have 4 bytes, tshark has 4 other bytes" in out
    assert "only tshark has method 60.40 on channel 1, 11 bytes" in out
    assert "verify: 5 differences that no known fault of tshark explains" in err
    found = [json.loads(line) for line in amqproxy("verify", "--json", str(good)).out.splitlines()]
    assert found[-1]["differences"] == 5
    assert [each.get("field") for each in found[:2]] == ["routing_key", "payload"]


def test_a_difference_of_0_10_that_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, amqproxy: Amqproxy
) -> None:
    """A field of a command, one of a header, and a frame that only one has."""
    message = transfer("amq.direct", b"body", key="k").encode()
    point = encode_method_010(0, SessionCommandPoint(7, 0))
    good, other = tmp_path / "good.pcapng", tmp_path / "other.pcapng"
    good.write_bytes(capture_of(point + message, HEADER_010))
    changed = message.replace(b"amq.direct", b"amq.fanout").replace(b"\1k", b"\1j")
    other.write_bytes(capture_of(point + changed + point, HEADER_010))
    dissected = verification.dissected
    monkeypatch.setattr(verification, "dissected", lambda file, ports: dissected(str(other), ports))
    code, out, err = amqproxy("verify", str(good))
    assert code == 1
    assert "message.transfer on channel 0, 19 bytes: destination: we have 'amq.direct', tshark has 'amq.fanout'" in out
    assert "message.delivery-properties.routing_key: we have 'k', tshark has 'j'" in out
    assert "only tshark has method 2.7 on channel 0, 16 bytes" in out
    assert "verify: 3 differences that no known fault of tshark explains" in err


def test_every_value_of_a_table_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def bind(value: bytes) -> bytes:
        method = encode_method(1, QueueBind(queue="q", exchange="e", routing_key="k", arguments=Table({"n": 1})))
        return method.replace(b"\1nI\0\0\0\1", b"\1nI" + value)

    good, other = capture_of(OPEN + bind(struct.pack(">i", 1))), tmp_path / "other.pcapng"
    other.write_bytes(capture_of(OPEN + bind(struct.pack(">i", 2))))
    dissected = verification.dissected
    monkeypatch.setattr(verification, "dissected", lambda file, ports: dissected(str(other), ports))
    (difference,) = verify(tmp_path, good)
    assert (difference.field, difference.tshark) == ("arguments.n", "n (integer): 2")


def test_several_captures_and_standard_input(
    amqproxy: Amqproxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("a.pcapng", "b.pcapng"):
        (tmp_path / name).write_bytes(capture_of(OPEN))
    code, out, err = amqproxy("verify", str(tmp_path))
    assert (code, err) == (0, "")
    assert [line.partition(":")[0] for line in out.splitlines()] == [
        str(tmp_path / each) for each in ("a.pcapng", "b.pcapng")
    ]
    assert "1 frames compared, 0 differences (tshark " in out
    with (tmp_path / "a.pcapng").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert "standard input: 1 frames compared" in amqproxy("verify", "-").out


def test_what_no_engine_can_read(amqproxy: Amqproxy, tmp_path: Path) -> None:
    (tmp_path / "x.pcap").write_bytes(b"no capture at all")
    code, out, err = amqproxy("verify", str(tmp_path / "x.pcap"))
    assert (code, out) == (1, "")
    assert "it is no capture" in err
    assert amqproxy("verify").code == 2


def test_frames_that_are_larger_than_tshark_reads(tmp_path: Path) -> None:
    body = encode_frame(3, 1, bytes(1_100_000))
    found = verify(tmp_path, capture_of(OPEN + body + OPEN))
    assert {each.known for each in found} <= {known_faults.CLAMPED}
