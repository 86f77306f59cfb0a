"""Real frames of AMQP 0-10 for a run to begin with, and values of every type."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from uuid import UUID

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import DtxStart, ExecutionResult, MessageAccept, MessageTransfer, QueueDeclare
from amqproxy.amqp010.controls import ConnectionTuneOk, SessionConfirmed
from amqproxy.amqp010.frame import encode_method
from amqproxy.amqp010.methods import BY_INDEX
from amqproxy.amqp010.properties import DeliveryProperties, FragmentProperties, Header, MessageProperties, ReplyTo
from amqproxy.amqp010.results import QueueQueryResult, RecoverResult, Xid
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.amqp010.wire import Array, Entry, List, Map, UnknownStruct
from tests.amqp010.recorded import SESSIONS, directions

XID = Xid(1, b"global", b"branch")

EVERY_TYPE = Map(
    [
        Entry("a", "bin8", b"x"), Entry("b", "int8", -1), Entry("c", "uint8", 1), Entry("d", "char", "x"),
        Entry("e", "boolean", True), Entry("f", "int16", -1), Entry("g", "uint16", 1), Entry("h", "int32", -1),
        Entry("i", "uint32", 1), Entry("j", "float", 0.5), Entry("k", "char-utf32", "x"), Entry("l", "int64", -1),
        Entry("m", "uint64", 1), Entry("n", "double", 0.1), Entry("o", "datetime", 1), Entry("p", "uuid", UUID(int=1)),
        Entry("q", "bin1024", bytes(128)), Entry("r", "vbin8", b"x"), Entry("s", "str8-latin", "x"),
        Entry("t", "str8", "x"), Entry("u", "str8-utf16", "x"), Entry("v", "vbin16", b"x"), Entry("w", "str16", "x"),
        Entry("x", "vbin32", b"x"), Entry("y", "bin40", bytes(5)), Entry("z", "dec32", Decimal("-1.5")),
        Entry("A", "dec64", Decimal(1)), Entry("B", "bin72", bytes(9)), Entry("C", "void", None),
        Entry("D", "bit", True),
        Entry("E", "map", Map({"k": List([1, None])})), Entry("F", "array", Array("str16", ["x", "y"])),
        Entry("G", "struct32", XID), Entry("H", "struct32", UnknownStruct(0xFFFF, b"x")), Entry("I", "0x8f", b"x"),
    ]
)  # fmt: skip
HEADER = Header(
    (
        DeliveryProperties(priority=4, ttl=1, exchange="e", routing_key="k"),
        FragmentProperties(),
        MessageProperties(5, UUID(int=1), b"c", ReplyTo("e", "k"), application_headers=EVERY_TYPE),
        UnknownStruct(0xFFFF, b"x"),
    )
)


def seeds() -> Iterator[bytes]:
    """Inputs as `target_0_10.check` takes them."""
    for cls in BY_INDEX:
        yield b"\0\0" + encode_method(1, cls())
    message = Assembly(1, MessageTransfer("q", 0, 0), HEADER, b"hello")
    yield b"\0\3" + message.encode() + encode_method(1, MessageAccept(SequenceSet([(0, 1), (3, 3)])))
    yield b"\1\7" + message.encode(40)
    yield b"\0\7" + encode_method(0, ConnectionTuneOk(5, 4096, 0)) + message.encode(100)
    results = (QueueQueryResult("q", arguments=EVERY_TYPE), RecoverResult(Array("struct32", [XID, XID])))
    for result in results:
        yield b"\0\5" + encode_method(1, ExecutionResult(1, result))
    for xid in (XID, XID.as_plain()):
        yield b"\0\1" + encode_method(1, DtxStart(xid))
    yield b"\0\1" + encode_method(1, QueueDeclare("q", arguments=EVERY_TYPE))
    yield b"\0\1" + encode_method(1, SessionConfirmed(SequenceSet([(0, 9)]), Array("void", [None])))
    for container in (EVERY_TYPE, List([1, Map({})]), Array("str16", ["x"])):
        yield b"\0\0" + container.encoded
    for name in SESSIONS:
        for direction in directions(name)[:2]:
            yield b"\1\x40" + direction.data[8:1800]
