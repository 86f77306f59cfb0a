"""Recorded traffic decodes to what its peers, and others, say of it: frame by frame, and field by field."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from itertools import accumulate
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from amqproxy.amqp010.assembly import Assembly, AssemblyReader
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import BODY, HEADER, Frame
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.protocol_header import HEADER as PROTOCOL_HEADER
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.structs import Struct
from amqproxy.amqp010.wire import Array, List, Map
from tests.amqp010 import recorded
from tests.amqp010.frame_finder import find_frame
from tests.amqp010.recorded import Direction

every_session = pytest.mark.parametrize("name", recorded.SESSIONS)


@cache
def sides(name: str) -> list[Direction]:
    return [direction for direction in recorded.directions(name) if recorded.speaks_0_10(direction)]


@every_session
def test_every_frame_goes_back_to_its_bytes(name: str) -> None:
    for direction in sides(name):
        again = bytearray(PROTOCOL_HEADER)
        for frame in recorded.frames(direction):
            assert frame.offset == len(again)
            again += frame.raw
        assert again == direction.data


@every_session
def test_every_assembly_is_encoded_to_its_bytes(name: str) -> None:
    for direction in sides(name):
        for assembly in recorded.assemblies(direction):
            made = Assembly(
                assembly.channel, assembly.method, assembly.header, assembly.body if assembly.has_body else None
            )
            assert made.encode(65_535) == b"".join(frame.raw for frame in assembly.frames)


# --- tshark


@every_session
def test_tshark_sees_the_same_frames(name: str) -> None:
    expected: dict[tuple[int, int], list[tuple[Any, ...]]] = defaultdict(list)
    for row in recorded.rows(name):
        if row["version"] != "0-10":
            continue
        method = f"{row['class']}.{row['method']}" if row["method"] else ""
        expected[int(row["stream"]), int(row["src_port"])].append(
            (row["kind"], int(row["channel"]), int(row["length"]), method, int(row["track"]), int(row["position"]))
        )
    found = {}
    for direction in sides(name):
        found[direction.stream, direction.port] = [
            (
                ("control", "command", "header", "body")[frame.kind],
                frame.channel,
                frame.length(),
                misread(frame),
                frame.track,
                frame.flags,
            )
            for frame in recorded.frames(direction)
        ]
    assert found == expected


def misread(frame: Frame) -> str:
    """The method's name, as tshark has it."""
    if frame.kind in (HEADER, BODY):
        return ""
    return "tx.select" if frame.name in ("tx.commit", "tx.rollback") else frame.name


# --- qpid-python


class Said(NamedTuple):
    """What a line of another program says: a name, and fields."""

    name: str
    fields: dict[str, Any]


class Names(dict[str, Any]):
    """Has every name of a class mean what makes a `Said` of its arguments."""

    def __missing__(self, name: str) -> Any:
        return lambda **fields: Said(name, fields)


def same(value: Any) -> Any:
    return value


def said_by_qpid_python() -> dict[int, list[Said]]:
    """The assemblies of each side, by its port."""
    names = Names(serial=same, timestamp=int, UUID=UUID, Decimal=Decimal, True_=True)
    found: dict[int, list[Said]] = defaultdict(list)
    for line in recorded.expected(recorded.QPIDD, "qpidpy-ops.txt"):
        port, _, text = line.split(" ", 2)
        if not port.isdecimal():  # a summary
            continue
        text = re.sub(r"(commands|transfers)=\[([^\]]*)\]", r"\1='\2'", text)
        found[int(port)].append(eval(text, {"__builtins__": {}}, names))
    return found


def as_qpid_python(value: Any) -> Any:
    """A value as that decodes it: containers as Python's own, structs as a `Said`."""
    if isinstance(value, Struct):
        return Said(camel(value.name.rpartition(".")[2]), {k: as_qpid_python(v) for k, v in value.present().items()})
    if isinstance(value, Map):
        return {key: as_qpid_python(each) for key, each in value.items()}
    if isinstance(value, (List, Array)):
        return [as_qpid_python(each) for each in value]
    if isinstance(value, SequenceSet):
        return ", ".join(f"{first}-{last}" for first, last in value.ranges)
    return value


def camel(name: str) -> str:
    return "".join(word.title() for word in re.split("[-.]", name))


def fields_of(method: Method) -> dict[str, Any]:
    """The fields that are there; of the bits, those that are set."""
    present = {spoken: getattr(method, field) for spoken, field in method.spoken}
    return {name: value for name, value in present.items() if value is not None and value is not False}


def test_qpid_python_decodes_the_same() -> None:
    expected = said_by_qpid_python()
    for direction in sides(recorded.QPIDD):
        found = []
        for assembly in recorded.assemblies(direction):
            fields = {name: as_qpid_python(value) for name, value in fields_of(assembly.method).items()}
            if assembly.channel:
                fields["channel"] = assembly.channel
            if assembly.is_command and assembly.method.sync:
                fields["sync"] = True
            if assembly.header is not None:
                fields["headers"] = [as_qpid_python(entry) for entry in assembly.header.entries]
            if assembly.has_body:
                fields["payload"] = assembly.body
            found.append(Said(camel(assembly.method.name), fields))
        assert found == expected[direction.port]


# --- the Qpid C++ broker


def test_the_broker_traced_the_same() -> None:
    expected = [
        re.sub(r"^.* trace (SENT|RECV) \[[^\]]*\]: ", r"\1 ", line)
        for line in recorded.expected(recorded.QPIDD, "qpidd-trace.log")
        if " trace " in line and "Frame[" in line
    ]
    for direction in sides(recorded.QPIDD):
        verb = "SENT" if direction.port == 35672 else "RECV"
        theirs = [line.removeprefix(verb + " ") for line in expected if line.startswith(verb)]
        ours = recorded.frames(direction)
        assert len(ours) == len(theirs)
        for frame, line in zip(ours, theirs, strict=True):
            assert_traced(frame, line)


def assert_traced(frame: Frame, line: str) -> None:
    flags = "".join(letter for letter, bit in zip("BEbe", (8, 4, 2, 1), strict=True) if frame.flags & bit)
    head = f"Frame[{flags}; channel={frame.channel}; "
    assert line.startswith(head)
    rest = line.removeprefix(head).removesuffix("]")
    if frame.kind == BODY:
        assert rest.startswith(f"content ({frame.size} bytes) ")
    elif frame.kind == HEADER:
        assert rest.startswith(f"header ({frame.size} bytes); properties={{")
        for entry in frame.header.entries:
            name, fields = traced(entry.name.rpartition(".")[2], entry.present())
            assert f"{{{name}: {fields}" in rest
    else:
        name, fields = traced(frame.name + "-body", fields_of(frame.method))
        assert rest.startswith(f"{{{name}: {fields}"), (rest, fields)


def traced(name: str, fields: dict[str, Any]) -> tuple[str, str]:
    """A struct as the broker writes it, up to the first field whose type it writes in its own ways."""
    text = ""
    for field, value in fields.items():
        if (
            isinstance(value, (Map, Array))
            or (isinstance(value, Struct) and value.code is not None)
            or field == "response"
        ):
            return camel(name), text
        text += f"{field.replace('_', '-')}={traced_value(value)}; "
    return camel(name), text


def traced_value(value: Any) -> str:
    if isinstance(value, Struct):
        name, fields = traced(value.name.rpartition(".")[2], value.present())
        return f"{{{name}: {fields}}}"
    if isinstance(value, SequenceSet):
        return "{ " + "".join(f"[{first},{last}] " for first, last in value.ranges) + "}"
    if value is True:
        return "1"
    return value.decode() if isinstance(value, bytes) else str(value)


# --- the JMS client


class Traced(NamedTuple):
    """An instruction in the client's trace, with its content."""

    connection: str
    is_sent: bool
    channel: int
    is_sync: bool
    text: str
    headers: tuple[str, ...]
    body: str | None


def traced_by_the_client(name: str) -> Iterator[Traced]:
    lines = recorded.expected(name, "jms-trace.log")
    pattern = re.compile(r"(SEND|RECV): \[conn:(\w+)\] ch=(\d+) (?:id=\d+ )?(\[S\] )?(?:\[B\] )?(.*)")
    blocks: list[list[str]] = []
    for line in lines:
        if line.startswith("  ") and blocks:
            blocks[-1].append(line.strip())
        elif pattern.match(line):
            blocks.append([line])
    for head, *rest in blocks:
        match = pattern.match(head)
        assert match is not None
        body = next((line.removeprefix("body=") for line in rest if line.startswith("body=")), None)
        headers = tuple(line for line in rest if not line.startswith("body="))
        verb, connection, channel, sync, text = match.groups()
        text = re.sub(r"\{(\[\d+, \d+\][^}]*)\}", r"\1", text)  # as it writes sets that it sends
        yield Traced(connection, verb == "SEND", int(channel), bool(sync), text, headers, body)


def java(value: Any, is_32_bits: bool = False) -> str:
    """A value as Java, and Qpid's classes, write it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return '"' + "".join(chr(byte) if 32 <= byte < 127 and byte != 92 else f"\\x{byte:02x}" for byte in value) + '"'
    if isinstance(value, Map):
        return "{" + ", ".join(f"{key}={java(each)}" for key, each in value.items()) + "}"
    if isinstance(value, Array):
        return "[" + ", ".join(map(java, value)) + "]" if value.type else "null"
    if isinstance(value, List):
        return "[" + ", ".join(map(java, value)) + "]"
    if isinstance(value, SequenceSet):
        return ", ".join(f"[{first}, {last}]" for first, last in value.ranges)
    if isinstance(value, Struct):
        return java_fields(camel(value.name.rpartition(".")[2]), value, value.fields)
    if isinstance(value, int) and is_32_bits and value >= 2**31:
        return str(value - 2**32)
    return str(value)


def java_fields(name: str, owner: Any, fields: Any) -> str:
    codes = dict(zip(type(owner).fields, type(owner).layout, strict=True))
    parts = []
    for field in fields:
        value = getattr(owner, field)
        if value is None or value is False:
            continue
        choices = owner.choices.get(field)
        if choices is not None:
            text = choices(value).name
        else:
            text = java(value, codes[field] == 0x22)
        words = field.rstrip("_").replace("failing_", "").split("_")
        parts.append(f"{words[0]}{''.join(word.title() for word in words[1:])}={text}")
    return f"{name}({', '.join(parts)})"


def as_traced(assembly: Assembly, connection: str, is_sent: bool) -> Traced:
    method = assembly.method
    header = assembly.header
    return Traced(
        connection,
        is_sent,
        assembly.channel,
        assembly.is_command and method.sync,
        java_fields(camel(method.name), method, method.fields),
        tuple(java(entry) for entry in header.entries) if header else (),
        java(assembly.body) if assembly.has_body else None,
    )


@pytest.mark.parametrize("name", recorded.JMS)
def test_the_client_traced_the_same(name: str) -> None:
    expected: dict[tuple[str, bool], list[Traced]] = defaultdict(list)
    for traced_ in traced_by_the_client(name):
        expected[traced_.connection, traced_.is_sent].append(traced_)
    connections = list(dict.fromkeys(connection for connection, _ in expected))
    for direction in sides(name):
        connection = connections[direction.stream]
        is_sent = direction.port != 35675
        ours = [as_traced(assembly, connection, is_sent) for assembly in recorded.assemblies(direction)]
        for one, other in zip(ours, expected[connection, is_sent], strict=False):
            if other.body is not None and other.body.endswith('"...'):  # it cuts long ones
                cut = other.body.removesuffix('"...')
                assert one.body is not None
                assert one.body.startswith(cut)
                one, other = one._replace(body=""), other._replace(body="")
            assert one == other
        assert len(ours) == len(expected[connection, is_sent])


def instructions(frames: Iterator[Frame] | list[Frame]) -> list[tuple[Any, ...]]:
    readers: dict[int, AssemblyReader] = defaultdict(AssemblyReader)
    found = []
    for frame in frames:
        assembly = readers[frame.channel].add(frame)
        if assembly is not None:
            found.append((assembly.channel, assembly.method, assembly.header, assembly.body))
    return found


# --- the bodies that are containers themselves


def test_what_the_program_got_is_in_the_bodies() -> None:
    name = recorded.JMS[0]
    got = [line for line in recorded.expected(name, "jms-values.txt") if line.startswith("GOT ")]
    (server,) = (direction for direction in sides(name) if direction.port == 35675)
    delivered = [
        assembly
        for assembly in recorded.assemblies(server)
        if assembly.method.name == "message.transfer" and assembly.properties.user_id
    ]
    assert len(delivered) == len(got)
    kinds = {"AMQPEncodedMapMessage": "amqp/map", "AMQPEncodedListMessage": "amqp/list", "JMSTextMessage": "text/plain"}
    checked = 0
    for assembly, line in zip(delivered, got, strict=True):
        kind = line.split()[1]
        properties = assembly.properties
        assert f"id=ID:{properties.message_id} " in line
        assert f"prio={assembly.delivery_properties.priority} " in line
        assert f"corr={(properties.correlation_id or b'').decode()} " in line
        if kind not in kinds:
            continue
        assert properties.content_type == kinds[kind]
        headers = properties.application_headers
        assert headers is not None
        for entry in headers.entries:
            assert f"{entry.key}={JAVA_TYPES[entry.type]}:" in line
        if kind == "AMQPEncodedMapMessage":
            body = Map.from_bytes(assembly.body[4:])
            assert int.from_bytes(assembly.body[:4]) == len(assembly.body) - 4
            for entry in body.entries:
                assert f"{entry.key}=" in line
                if entry.type in ("int32", "int64", "str16", "boolean", "int16"):
                    assert f"{entry.key}={JAVA_TYPES[entry.type]}:{java(entry.value)}" in line
        elif kind == "AMQPEncodedListMessage":
            assert len(List.from_bytes(assembly.body[4:])) == int.from_bytes(assembly.body[4:8])
        checked += 1
    assert checked == 15


JAVA_TYPES = {
    "boolean": "Boolean", "int8": "Byte", "int16": "Short", "int32": "Integer", "int64": "Long", "float": "Float",
    "double": "Double", "str16": "String", "str8": "String",
}  # fmt: skip


# --- however the bytes come


@every_session
@pytest.mark.parametrize("cut", ["packets", "bytes", "random", "frames"])
def test_how_they_are_cut_does_not_matter(name: str, cut: str) -> None:
    random = Random(name)
    for direction in sides(name)[:6]:
        data = direction.data[len(PROTOCOL_HEADER) :]
        expected = recorded.frames(direction)
        if cut == "packets":
            sizes = [len(piece) for piece in direction.pieces]
            sizes[0] -= len(PROTOCOL_HEADER)
        elif cut == "bytes":
            data = data[:20_000]
            sizes = [1] * len(data)
        elif cut == "frames":
            sizes = [frame.length() for frame in expected]
        else:
            sizes = [random.choice((1, 5, 12, 13, 100, 4000)) for _ in range(len(data))]
        reader = FrameReader(frame_max=0)
        found = []
        place = 0
        for size in sizes:
            found += reader.feed(data[place : place + size])
            place += size
        assert reader.error is None
        assert [frame.raw for frame in found] == [frame.raw for frame in expected[: len(found)]]
        if cut != "bytes":
            assert len(found) == len(expected)


@every_session
def test_packets_in_another_order(name: str) -> None:
    as_sent = recorded.directions(name)
    for seed in range(3):
        for one, other in zip(recorded.directions(name, Random(seed)), as_sent, strict=True):
            assert one.data == other.data


@every_session
def test_what_is_truncated_is_held(name: str) -> None:
    for direction in sides(name)[:6]:
        data = direction.data[len(PROTOCOL_HEADER) :]
        sizes = [frame.length() for frame in recorded.frames(direction)]
        bounds = [0, *accumulate(sizes)]
        for end in {*range(0, min(len(data), 3000), 7), *range(0, len(data), 4099)}:
            reader = FrameReader(frame_max=0)
            found = reader.feed(data[:end])
            assert reader.error is None
            assert len(found) == sum(bound <= end for bound in bounds[1:])
            assert len(reader.held) == end - max(bound for bound in bounds if bound <= end)


@every_session
def test_what_is_joined_in_the_middle(name: str) -> None:
    for direction in sides(name)[:6]:
        whole = recorded.frames(direction)
        data = direction.data
        everything = instructions(whole)
        for start in {*range(8, min(len(data), 2500), 13), *range(8, len(data), 5003)}:
            place, is_sure = find_frame(data, start)
            rest = [frame for frame in whole if frame.offset >= start]
            if len(rest) > 1:
                assert is_sure
                assert place == rest[0].offset
                reader = FrameReader(offset=place, frame_max=0, is_midstream=True)
                found = reader.feed(data[place:])
                assert reader.error is None
                assert [frame.raw for frame in found] == [frame.raw for frame in rest]
                known = instructions(found)
                assert known == everything[len(everything) - len(known) :]


@every_session
def test_what_is_damaged_is_decoded_or_refused(name: str) -> None:
    random = Random(name)
    for direction in sides(name)[:6]:
        data = direction.data[len(PROTOCOL_HEADER) :]
        for _ in range(60):
            damaged = bytearray(data[:6000])
            for _ in range(random.choice((1, 1, 3))):
                damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
            reader = FrameReader()
            readers: dict[int, AssemblyReader] = defaultdict(AssemblyReader)
            for frame in reader.feed(bytes(damaged)):
                try:
                    assembly = readers[frame.channel].add(frame)
                except ProtocolError as error:
                    assert error.offset is not None  # noqa: PT017 - it need not come
                    continue
                if assembly is not None:
                    raw = b"".join(each.raw for each in assembly.frames)
                    if all(each.is_whole_segment for each in assembly.frames):
                        again = Assembly(assembly.channel, assembly.method, assembly.header)
                        body = assembly.body if assembly.has_body else None
                        assert (again if body is None else again.altered(body=body)).encode(65_535) == raw
            assert bytes(reader.taken) + (reader.refused if reader.error else reader.held) == damaged


# --- what is no connection of 0-10


@pytest.mark.parametrize("name", recorded.NEGOTIATIONS)
def test_other_headers(name: str) -> None:
    """Either broker begins with the header of 0-10 if its client does; behind it, rubbish is named as such."""
    directions = recorded.directions(name)
    for client, server in zip(directions[::2], directions[1::2], strict=True):
        if recorded.speaks_0_10(client):
            assert recorded.speaks_0_10(server)
            (start,) = recorded.frames(server)
            assert start.name == "connection.start"
            reader = FrameReader(offset=8)
            reader.feed(client.data[8:])
            assert (reader.error is not None) is (len(client.data) > 8)
            assert not reader.frames
