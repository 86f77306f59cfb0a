"""Batches of Arrow: the same rows as the records in JSON."""

import base64
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp010 import frame as amqp010
from amqproxy.amqp010.controls import ConnectionStartOk
from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp010.properties import Header, MessageProperties
from amqproxy.amqp010.wire import Array, Entry, Map
from amqproxy.amqp091.frame import BODY, HEADER, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import QueueDeclare
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.amqp091.wire import Table
from amqproxy.capture import frame_columns
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.amqp010.row import row_of
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.arrow import record_batches, schema
from amqproxy.capture.decode import BOTH_LEGS, read_decoded
from amqproxy.capture.decoded import Decoded, DecodedFrames, StreamEnded, records_of
from amqproxy.taps.amqp091.chunk import Amqp091Chunk
from amqproxy.taps.note import Note
from tests.amqp010 import recorded
from tests.capture.any_frames import CAPTURES, WHERE, amqp010_frames, frames, times
from tests.example_count import example_count

DOCUMENTED = Path(__file__).parents[2] / "docs" / "arrow.md"
MOST = 2**63 - 1

OF_RECORD = (
    "stream",
    "connection",
    "protocol",
    "channel",
    "type",
    "method",
    "size",
    "code",
    "reason",
    "offset",
    "lost",
)
OF_ARGUMENTS = ("exchange", "routing_key", "queue", "consumer_tag", "delivery_tag", "multiple", "redelivered")
OF_ARGUMENTS += ("requeue", "mandatory", "reply_code", "reply_text")
OF_PROPERTIES = {"message_timestamp": "timestamp", "message_type": "type"}
for _name in ("content_type", "content_encoding", "delivery_mode", "priority", "correlation_id", "reply_to"):
    OF_PROPERTIES[_name] = _name
for _name in ("expiration", "message_id", "user_id", "app_id", "cluster_id"):
    OF_PROPERTIES[_name] = _name


def told(value: Any) -> Any:
    """A value of JSON as a column has it."""
    if isinstance(value, dict):
        return base64.b64decode(value["base64"]).decode("utf-8", "backslashreplace")
    if isinstance(value, int) and not isinstance(value, bool) and not -MOST <= value <= MOST:
        return None
    return value


ARGUMENTS_OF_0_10 = {
    "binding_key": "routing_key",
    "destination": "consumer_tag",
    "error_code": "reply_code",
    "code": "reply_code",
    "description": "reply_text",
    "text": "reply_text",
}


def arguments_of_0_10(line: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Under the names that the columns have."""
    found = {ARGUMENTS_OF_0_10.get(name, name): value for name, value in arguments.items()}
    if line["method"] == "message.transfer":
        if line["from"] == "client":
            found["exchange"] = found.pop("consumer_tag", "")
        else:
            found["delivery_tag"] = line.get("command_id")
    elif line["method"] in ("message.accept", "message.reject", "message.release"):
        found["delivery_tag"] = arguments["transfers"][-1][1]
        found["multiple"] = arguments["transfers"] != [[found["delivery_tag"]] * 2]
    return found


def properties_of_0_10(line: dict[str, Any]) -> dict[str, Any]:
    """What a header says, by the columns, with the headers as they are."""
    given = line.get("properties", {})
    same = ("delivery_mode", "priority", "content_type", "content_encoding", "correlation_id", "user_id", "app_id")
    row = {name: given.get(name) for name in (*same, "message_id", "exchange", "routing_key")}
    headers = given.get("application_headers")
    row |= {"headers": headers, "message_type": (headers or {}).get("x-jms-type")}
    row |= {"body_size": given.get("content_length"), "expiration": str(given["ttl"]) if "ttl" in given else None}
    stamp = given.get("timestamp")
    row["message_timestamp"] = stamp // 1000 if stamp is not None and stamp > 10**11 else stamp
    row["reply_to"] = given["reply_to"].get("routing_key", "") if "reply_to" in given else None
    delivery = ("exchange", "routing_key", "priority", "delivery_mode", "ttl", "redelivered", "timestamp")
    if line["from"] == "server" and any(name in given for name in delivery):
        row["redelivered"] = given.get("redelivered", False)
    return row


def rows_of(passed: list[Decoded], body: int) -> list[dict[str, Any]]:
    """What the rows have to be, by way of the lines of JSON."""
    rows = []
    for each in passed:
        is_frames = isinstance(each, DecodedFrames)
        sent = [frame.known_payload for frame in each.frames] if is_frames else [b""]
        for record, payload in zip(records_of(each, has_both_legs=True), sent, strict=False):
            line = json.loads(record.to_json())
            arguments, properties = line.get("arguments") or {}, line.get("properties") or {}
            is_method, is_0_10 = "method" in line, isinstance(each, Amqp010DecodedFrames)
            has_arguments = is_method and "arguments" in line
            shown = arguments
            if is_0_10:
                shown = arguments_of_0_10(line, arguments) if has_arguments else {}
            row = {name: told(line.get(name)) for name in OF_RECORD}
            row["class"] = line["method"].partition(".")[0] if is_method else None
            row |= {name: told(shown.get(name)) if is_method else None for name in OF_ARGUMENTS}
            row |= {name: None if is_0_10 else told(properties.get(key)) for name, key in OF_PROPERTIES.items()}
            row["headers"] = properties.get("headers")
            row["body_size"] = told(arguments.get("body_size"))
            row |= {"sender": line["from"], "leg": line.get("leg"), "verdict": line.get("verdict")}
            row |= {"rules": line.get("rules"), "tags": line.get("tags")}
            row["arguments"] = arguments if has_arguments else None
            row |= {name: line.get(name) for name in ("command_id", "flags")}
            if is_0_10 and line["type"] == "header":
                of_header = properties_of_0_10(line)
                row |= {name: value if name == "headers" else told(value) for name, value in of_header.items()}
            row["ts_ns"] = told(line["ts_ns"])
            row["time"] = None if row["ts_ns"] is None else row["ts_ns"] // 1000
            row["body"] = payload[:body] if line["type"] == "body" and body else None
            rows.append(row)
    return rows


def read_back(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for batch in batches:
        batch.validate(full=True)
        rows += batch.set_column(1, "time", batch.column("time").cast(pa.int64())).to_pylist()
    for row in rows:
        row.setdefault("body", None)
        for name in ("headers", "arguments"):
            row[name] = None if row[name] is None else json.loads(row[name])
    return rows


def check(passed: list[Decoded], body: int = 0, rows: int = 65_536, *, dictionaries: bool = True) -> None:
    batches = list(record_batches(passed, rows=rows, body=body, arguments=True, dictionaries=dictionaries))
    wanted = schema(arguments=True, body=body > 0, dictionaries=dictionaries)
    assert all(batch.schema == wanted for batch in batches)
    assert all(batch.num_rows == rows for batch in batches[:-1])
    found, expected = read_back(batches), rows_of(passed, body)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one == other


@pytest.mark.parametrize("path", [*CAPTURES, *recorded.captures()], ids=lambda path: path.name)
def test_every_capture_gives_the_rows_of_its_lines(path: Path) -> None:
    passed = list(read_decoded([path], leg=BOTH_LEGS))
    check(passed, body=9)
    check(passed, rows=7, dictionaries=False)


@settings(max_examples=example_count(100), deadline=None)
@given(frames, times, st.integers(0, 2**40), st.integers(0, 60), st.integers(1, 9))
def test_any_frames_give_the_rows_of_their_lines(data: bytes, ts_ns: int, stream: int, body: int, rows: int) -> None:
    chunk = Amqp091DecodedFrames(ts_ns, stream, "one", "client", Amqp091Chunk(data, 1 << 33, -1, False))
    as_list = msgspec.structs.replace(chunk, frames=list(chunk.frames), leg="client", connection="another")
    note = Note(("slow", "other"), ("late",), "rewritten", "upstream")
    noted = msgspec.structs.replace(chunk, ts_ns=-1, leg="upstream", note=note)
    cut = Amqp091DecodedFrames(*WHERE, [Frame(encode_frame(BODY, 1, b"ab" + bytes(8)), 3, 8)])
    check([chunk, as_list, noted, cut, StreamEnded(5, 3, "one", "over"), chunk], body, rows)


@settings(max_examples=example_count(200), deadline=None)
@given(
    st.lists(st.tuples(amqp010_frames(), st.one_of(st.none(), st.integers(0, 2**32 - 1))), min_size=1, max_size=8),
    st.sampled_from(("client", "server")),
    st.integers(0, 60),
    st.integers(1, 9),
    st.booleans(),
)
def test_rows_of_0_10_are_those_of_its_records(
    found: list[tuple[Amqp010Frame, int | None]], sender: str, body: int, rows: int, arguments: bool
) -> None:
    frames, numbers = zip(*found, strict=True)
    passed = Amqp010DecodedFrames(5, 3, "one", sender, frames, command_ids=numbers)
    by_record = msgspec.structs.replace(passed, note=Note())  # which is not looked into, but has nothing
    batches = [
        list(record_batches([each, each], rows=rows, body=body, arguments=arguments)) for each in (passed, by_record)
    ]
    for batch in batches[0]:
        batch.validate(full=True)
    assert pa.Table.from_batches(batches[0]).to_pylist() == pa.Table.from_batches(batches[1]).to_pylist()


def test_there_is_room_for_arrays_of_0_10_whose_json_is_long() -> None:
    array = Array.from_bytes(b"\0" + (60_000).to_bytes(4) + bytes(60_000))  # of bin8
    header = Header((MessageProperties(application_headers=Map([Entry("a", "array", array)])),)).encode()
    start_ok = amqp010.encode_method(0, ConnectionStartOk(Map([Entry("a", "array", array)]), "PLAIN", b"", ""))
    found = [Amqp010Frame(amqp010.encode_frame(3, amqp010.HEADER, 1, header)), Amqp010Frame(start_ok)]
    passed: list[Decoded] = [Amqp010DecodedFrames(*WHERE, found, command_ids=[None, None])]
    header_row, method_row = read_back(list(record_batches(passed, arguments=True)))
    shown = {"a": ["\0"] * 60_000}
    assert (header_row["headers"], method_row["arguments"]["client_properties"]) == (shown, shown)


@pytest.mark.parametrize("name", recorded.SESSIONS)
def test_most_frames_of_0_10_need_no_record(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(frame_columns, "row_of", lambda frame, *given: made.append(frame.name) or row_of(frame, *given))
    count = sum(batch.num_rows for batch in record_batches(recorded.decoded(name), arguments=True, body=8))
    rare = {"header", "queue.declare", "execution.result"}
    assert {name for name in made if not name.startswith("dtx.")} <= rare, "types that are rare"
    assert len(made) * 8 < count


def test_a_batch_ends_where_its_texts_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    body = encode_frame(BODY, 1, bytes(1 << 20))
    passed: list[Decoded] = [Amqp091DecodedFrames(*WHERE, Amqp091Chunk(body, 0))] * 80
    sizes = [batch.num_rows for batch in record_batches(passed, body=1 << 20)]
    assert sum(sizes) == 80
    assert max(sizes) <= 33


@pytest.mark.parametrize("letter", [b"F", b"A"], ids=["tables", "arrays"])
def test_tables_however_deep_they_nest(letter: bytes) -> None:
    entries = b""
    for _ in range(2000):
        entries = (b"\x01k" if letter == b"F" else b"") + letter + len(entries).to_bytes(4) + entries
    table = Table.from_octets(entries if letter == b"F" else b"\x01k" + entries)
    header = encode_frame(HEADER, 1, ContentHeader(9, Properties(headers=table)).encode())
    data = encode_method(1, QueueDeclare(arguments=table)) + header
    check([Amqp091DecodedFrames(*WHERE, Amqp091Chunk(data, 0))])


def test_nothing_gives_no_batch() -> None:
    assert list(record_batches([])) == []


def test_parquet_keeps_the_rows(tmp_path: Path) -> None:
    passed = list(read_decoded([CAPTURES[0]]))
    batches = list(record_batches(passed, arguments=True))
    pyarrow.parquet.write_table(pa.Table.from_batches(batches), tmp_path / "frames.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "frames.parquet")
    assert read_back(table.combine_chunks().to_batches()) == rows_of(passed, 0)


def test_the_columns_are_documented() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", DOCUMENTED.read_text(), re.MULTILINE)
    plain = schema(arguments=True, body=True, dictionaries=False)
    assert rows == [(field.name, str(field.type).replace("item: string not null", "item")) for field in plain]


def test_without_pyarrow_the_extra_is_named() -> None:
    code = "import sys; sys.modules['pyarrow'] = None; import amqproxy.capture.arrow"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'amqproxy[analytics]'" in ended.stderr
