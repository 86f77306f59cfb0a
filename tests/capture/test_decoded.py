"""What passed, as records."""

import json

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import Frame, encode_frame, encode_method
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.methods import BasicPublish, ConnectionStartOk
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decoded import DecodedProtocolHeader, SkippedBytes, records_of

WHERE = (5, 3, "10.0.0.1:40000-10.0.0.2:5672", "client")
SAME = {"ts_ns": 5, "stream": 3, "connection": "10.0.0.1:40000-10.0.0.2:5672", "from": "client"}


def as_records(passed: Amqp091DecodedFrames | DecodedProtocolHeader | SkippedBytes) -> list[dict[str, object]]:
    found = [json.loads(record.to_json()) for record in records_of(passed)]
    for each in found:
        for name, value in SAME.items():
            assert each.pop(name) == value
    return found


def frames(data: bytes) -> list[Frame]:
    return FrameReader(frame_max=0).feed(data)


def test_frames_are_one_record_each() -> None:
    publish = Command(2, BasicPublish(exchange="e", routing_key="k"), Properties(app_id="me"), b"body").encode(0)
    method, header, body = as_records(Amqp091DecodedFrames(*WHERE, frames(publish)))
    assert method["method"] == "basic.publish"
    assert method["arguments"] == {"exchange": "e", "routing_key": "k", "mandatory": False, "immediate": False}
    assert header["properties"] == {"app_id": "me"}
    assert body == {"protocol": "0-9-1", "channel": 2, "type": "body", "size": 4}


def test_a_malformed_payload_is_an_error_of_its_frame_alone() -> None:
    broken = encode_frame(1, 1, b"\0\x3c\0\x28\0\0\xff")
    error, after = as_records(Amqp091DecodedFrames(*WHERE, frames(broken + broken[:-4] + b"\0\0\0\xce" + b"")[:1] * 2))
    assert error["type"] == after["type"] == "error"
    assert error["lost"] == 7
    assert "code" in error


def test_secrets_are_masked() -> None:
    answer = encode_method(0, ConnectionStartOk(Table(), "PLAIN", b"\0guest\0secret", "en_US"))
    (record,) = as_records(Amqp091DecodedFrames(*WHERE, frames(answer)))
    assert "secret" not in json.dumps(record)


def test_a_header_is_named() -> None:
    assert as_records(DecodedProtocolHeader(*WHERE, "TLS", b"\x16\x03\x01")) == [
        {"protocol": "TLS", "type": "protocol-header", "size": 3}
    ]


def test_what_was_skipped_is_an_error() -> None:
    assert as_records(SkippedBytes(*WHERE, "0-9-1", "bytes are missing", 80, 13)) == [
        {"protocol": "0-9-1", "type": "error", "reason": "bytes are missing", "offset": 80, "lost": 13}
    ]
    assert as_records(SkippedBytes(*WHERE, "0-9-1", "FRAME_ERROR - no", 80, 13, 501, 2)) == [
        {
            "protocol": "0-9-1",
            "type": "error",
            "reason": "FRAME_ERROR - no",
            "offset": 80,
            "lost": 13,
            "code": 501,
            "channel": 2,
        }
    ]
