"""The methods, properties and constants, against the specification's XML and against RabbitMQ's own codec."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amqproxy.amqp091 import frame
from amqproxy.amqp091.errors import BY_CODE, NoRoute
from amqproxy.amqp091.methods import BY_INDEX, BY_NAME, Method, spec_name
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.amqp091.transitions import HANDSHAKE, REPLIES, SENDERS, Peer
from amqproxy.amqp091.wire import Array, Field, Item, Table
from tests.amqp091 import strategies
from tests.example_count import example_count
from tests.real.require import missing, require

SPECIFICATIONS = Path("/usr/share/amqp/specs")
"""Where Debian's package amqp-specs keeps them."""

OFFICIAL = "0-9-1/amqp0-9-1.stripped.xml"
EXTENDED = "0-9-1-rabbit/amqp0-9-1.stripped.extended.xml"
OLD = "0-8/amqp0-8.stripped.xml"

LETTERS = {
    "bit": "b", "octet": "o", "short": "h", "long": "l", "longlong": "q", "timestamp": "q", "shortstr": "u",
    "longstr": "S", "table": "F", "access ticket": "h",
}  # fmt: skip

RABBITMQ_ONLY = {
    "connection.blocked", "connection.unblocked", "connection.update-secret", "connection.update-secret-ok",
    "basic.credit", "basic.credit-ok", "basic.credit-drained",
}  # fmt: skip
"""What is in no XML of Debian's."""

FREED = {
    (OFFICIAL, "exchange.declare", "reserved_2"): "auto_delete",
    (OFFICIAL, "exchange.declare", "reserved_3"): "internal",
}
"""Fields that 0-9-1 reserved, and RabbitMQ uses again."""

# The specification has this in its text only: a server that confirms sends acks and nacks, one that cancels
# a consumer sends basic.cancel, and a client may answer.
SENT_BY_SERVERS_OF_RABBITMQ = {"basic.ack", "basic.nack", "basic.cancel"}
SENT_BY_CLIENTS_OF_RABBITMQ = {"basic.cancel-ok"}


class Described(NamedTuple):
    """What an XML file specifies for one method."""

    name: str
    ids: tuple[int, int]
    fields: list[tuple[str, str]]
    has_content: bool
    senders: set[Peer]
    responses: list[str]


def specification(name: str) -> Element:
    path = SPECIFICATIONS / name
    if not path.exists():
        missing("the specification of AMQP", "apt-get install amqp-specs")
    return ElementTree.parse(path).getroot()


def described(root: Element) -> Iterator[Described]:
    domains = {domain.get("name", ""): domain.get("type", "") for domain in root.iter("domain")}
    for cls in root.iter("class"):
        for method in cls.iter("method"):
            receivers = {chassis.get("name") for chassis in method.iter("chassis")}
            yield Described(
                f"{cls.get('name')}.{method.get('name')}",
                (int(cls.get("index", "")), int(method.get("index", ""))),
                [_field(field, domains) for field in method.iter("field")],
                method.get("content") == "1",
                {peer.other for peer in Peer if peer in receivers},
                [f"{cls.get('name')}.{response.get('name')}" for response in method.iter("response")],
            )


def _field(field: Element, domains: dict[str, str]) -> tuple[str, str]:
    domain = field.get("domain") or field.get("type") or ""
    name = field.get("name", "").replace("-", "_").replace(" ", "_").replace("nowait", "no_wait")
    return name, LETTERS.get(domain) or LETTERS[domains[domain]]


def our_fields(cls: type[Method]) -> list[tuple[str, str]]:
    letters = cls.layout.decode().replace("s", "u")  # RabbitMQ wants UTF-8 in some of them, the wire does not
    return [(spec_name(field), letter) for field, letter in zip(cls.__struct_fields__, letters, strict=True)]


@pytest.mark.parametrize("name", [OFFICIAL, EXTENDED])
def test_methods(name: str) -> None:
    for method in described(specification(name)):
        ours = BY_NAME[method.name]
        fields = [(FREED.get((name, method.name, field), field), letter) for field, letter in method.fields]
        assert ((ours.class_id, ours.method_id), our_fields(ours)) == (method.ids, fields), method.name
        assert ours.carries_content is method.has_content


def test_there_are_no_others() -> None:
    known = {method.name for file in (OFFICIAL, EXTENDED) for method in described(specification(file))}
    access = {method.name for method in described(specification(OLD)) if method.name.startswith("access.")}
    assert set(BY_NAME) == known | access | RABBITMQ_ONLY


def test_access_is_that_of_0_8() -> None:
    for method in described(specification(OLD)):
        if method.name.startswith("access."):
            ours = BY_NAME[method.name]
            fields = [("reserved_1" if name == "ticket" else name, letter) for name, letter in method.fields]
            assert ((ours.class_id, ours.method_id), our_fields(ours)) == (method.ids, fields)


@pytest.mark.parametrize("name", [OFFICIAL, EXTENDED])
def test_who_may_send_what(name: str) -> None:
    for method in described(specification(name)):
        expected = set(method.senders)
        if method.name in SENT_BY_SERVERS_OF_RABBITMQ:
            expected.add(Peer.SERVER)
        if method.name in SENT_BY_CLIENTS_OF_RABBITMQ:
            expected.add(Peer.CLIENT)
        assert SENDERS[method.name] == expected, method.name


@pytest.mark.parametrize("name", [OFFICIAL, EXTENDED])
def test_what_answers_what(name: str) -> None:
    """The replies of the handshake and of closing are moves in the tables of states, and not in `REPLIES`."""
    elsewhere = {method for moves in HANDSHAKE.values() for _, method in moves} | {
        "connection.close", "channel.open", "channel.close",
    }  # fmt: skip
    for method in described(specification(name)):
        if method.name == "basic.recover":
            method.responses.append("basic.recover-ok")  # which the specification has in words
        if method.name not in elsewhere:
            assert list(REPLIES.get(method.name, ())) == method.responses, method.name


@pytest.mark.parametrize("name", [OFFICIAL, EXTENDED])
def test_properties(name: str) -> None:
    root = specification(name)
    domains = {domain.get("name", ""): domain.get("type", "") for domain in root.iter("domain")}
    for cls in root.iter("class"):
        fields = [_field(field, domains) for field in cls.findall("field")]
        if cls.get("name") != "basic":
            assert not fields
            continue
        expected = [("cluster_id" if field == "reserved" else field, letter) for field, letter in fields]
        assert list(zip(Properties.__struct_fields__, Properties.layout.decode(), strict=True)) == expected


@pytest.mark.parametrize("name", [OFFICIAL, EXTENDED])
def test_constants(name: str) -> None:
    constants = {each.get("name", ""): each for each in specification(name).iter("constant")}
    numbers = {constant: int(each.get("value", "")) for constant, each in constants.items()}
    assert [numbers.pop(f"frame-{kind}") for kind in ("method", "header", "body", "heartbeat")] == [
        frame.METHOD, frame.HEADER, frame.BODY, frame.HEARTBEAT,
    ]  # fmt: skip
    assert numbers.pop("frame-min-size") == frame.FRAME_MIN_SIZE
    assert numbers.pop("frame-end") == frame.FRAME_END
    assert numbers.pop("reply-success") == 200
    assert set(BY_CODE) - set(numbers.values()) == {NoRoute.code}, "RabbitMQ's own"
    for constant, code in numbers.items():
        error = BY_CODE[code]
        assert error.name == constant.upper().replace("-", "_")
        assert (
            error.usual_scope
            == {"soft-error": "channel", "hard-error": "connection"}[constants[constant].get("class", "")]
        )


# --- RabbitMQ itself

Ask = Callable[..., list[str]]

# What a reserved field was called before it was one.
OLD_NAMES = {"ticket", "capabilities", "insist", "known_hosts", "out_of_band", "channel_id", "cluster_id"}

ATOMS = {
    "t": "bool", "b": "byte", "B": "unsignedbyte", "s": "short", "u": "unsignedshort", "I": "signedint",
    "i": "unsignedint", "l": "long", "L": "long", "T": "timestamp", "f": "float", "d": "double", "D": "decimal",
    "S": "longstr", "x": "binary", "V": "void", "F": "table", "A": "array",
}  # fmt: skip


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """Asks RabbitMQ's codec, and returns the words of its answer."""
    escript = require("escript", package="erlang-base")
    found = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/plugins/rabbit_common-*/ebin"))
    if not found:
        missing("RabbitMQ", "apt-get install rabbitmq-server")
    script = Path(__file__).with_name("rabbit_codec.escript")
    command = [escript, str(script), str(found[-1])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as codec:
        assert codec.stdin is not None
        assert codec.stdout is not None

        def put(*words: object) -> list[str]:
            assert codec.stdin is not None
            assert codec.stdout is not None
            codec.stdin.write(" ".join(map(str, words)) + "\n")
            codec.stdin.flush()
            return codec.stdout.readline().split()

        yield put
        codec.stdin.close()


def hexadecimal(data: bytes) -> str:
    return data.hex() or "-"


def rendered(value: Any) -> str:
    """A value of ours as the script renders RabbitMQ's."""
    if value is None:
        return "undefined"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return rendered(value.encode("utf-8", "surrogateescape"))
    if isinstance(value, bytes):
        return f"<{hexadecimal(value)}>"
    if isinstance(value, Decimal):
        sign, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        number = int("".join(map(str, digits)))
        # RabbitMQ reads four bytes without a sign, and writes the same ones; clients have them signed.
        return f"{{{-exponent},{-number % 2**32 if sign else number}}}"
    if isinstance(value, Table):
        return "[" + ",".join(f"{{{rendered(f.name)},{ATOMS[f.type]},{rendered(f.value)}}}" for f in value.fields) + "]"
    if isinstance(value, Array):
        return "[" + ",".join(f"{{{ATOMS[item.type]},{rendered(item.value)}}}" for item in value.items) + "]"
    return str(value)


def _has_type(item: Item, letters: str) -> bool:
    nested = item.value.fields if item.type == "F" else item.value.items if item.type == "A" else ()
    return item.type in letters or any(_has_type(Item(each.type, each.value), letters) for each in nested)


def _is_decoded_alike(table: Table) -> bool:
    """RabbitMQ reads no U, writes l for L, and floats are printed in other ways."""
    return not _has_type(Item("F", table), "ULfd")


one_process = settings(
    max_examples=example_count(20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.real
def test_rabbitmq_knows_the_same_methods(ask: Ask) -> None:
    theirs = {}
    for line in ask("methods"):
        class_id, method_id, name, has_content, is_synchronous, fields = line.split(",")
        theirs[name.replace("_", "-")] = (class_id, method_id, has_content, fields.split(".") if fields else [])
        is_asked = name.replace("_", "-") in REPLIES
        assert not is_asked or is_synchronous == "true"
    ours = {}
    for cls in BY_INDEX:
        fields = [spec_name(field).replace("no_wait", "nowait") for field in cls.__struct_fields__]
        if cls.name in theirs:
            their_fields = theirs[cls.name][3]
            fields = [
                there if here.startswith("reserved_") and there in OLD_NAMES else here
                for here, there in zip(fields, their_fields, strict=True)
            ]
        ours[cls.name] = (str(cls.class_id), str(cls.method_id), str(cls.carries_content).lower(), fields)
    assert ours == theirs


@pytest.mark.real
@pytest.mark.parametrize("cls", BY_INDEX, ids=[cls.name for cls in BY_INDEX])
@one_process
@given(data=st.data())
def test_rabbitmq_reads_what_we_write_and_writes_what_we_read(ask: Ask, cls: type[Method], data: st.DataObject) -> None:
    texts = strategies.any_text if cls.carries_content else strategies.utf8_text
    method = data.draw(strategies.methods_of(cls, short_strings=texts).filter(_tables_are_decoded_alike))
    arguments = hexadecimal(method.encode()[4:])
    values, again = ask("method", cls.class_id, cls.method_id, arguments)
    assert values == "[" + ",".join(rendered(getattr(method, field)) for field in cls.__struct_fields__) + "]"
    assert again == arguments


def _tables_are_decoded_alike(method: Method) -> bool:
    values = (getattr(method, field) for field in method.__struct_fields__)
    return all(_is_decoded_alike(value) for value in values if isinstance(value, Table))


@pytest.mark.real
@one_process
@given(table=strategies.tables.filter(_is_decoded_alike))
def test_rabbitmq_reads_our_tables(ask: Ask, table: Table) -> None:
    values, again = ask("table", hexadecimal(table.octets))
    assert values == rendered(table)
    assert again == hexadecimal(table.octets)


@pytest.mark.real
@pytest.mark.parametrize(("letter", "value", "as_text"), [("f", 0.5, "0.5"), ("d", 1.5, "1.5"), ("L", -7, "-7")])
def test_rabbitmq_reads_our_floats_and_the_other_long(ask: Ask, letter: str, value: float, as_text: str) -> None:
    table = Table([Field("k", letter, value)])
    values, again = ask("table", table.octets.hex())
    assert values == f"[{{<6b>,{ATOMS[letter]},{as_text}}}]"
    assert bytes.fromhex(again) == Table([Field("k", letter.replace("L", "l"), value)]).octets


@pytest.mark.real
@one_process
@given(properties=strategies.properties.filter(lambda each: each.headers is None or _is_decoded_alike(each.headers)))
def test_rabbitmq_reads_our_properties(ask: Ask, properties: Properties) -> None:
    encoded = ContentHeader(0, properties).encode()[12:]
    values, again = ask("properties", encoded.hex())
    assert values == "[" + ",".join(rendered(getattr(properties, f)) for f in Properties.__struct_fields__) + "]"
    assert again == encoded.hex()


def test_every_type_that_rabbitmq_has_is_ours_too() -> None:
    assert set(ATOMS) == set(strategies.TYPES) - {"U"}
