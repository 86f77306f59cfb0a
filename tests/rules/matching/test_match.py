"""Which commands a match holds for, and the errors of a wrong one."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import (
    BY_NAME,
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicPublish,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.amqp091.wire import Array, Field, Table
from amqproxy.rules.context import Client, CommandContext
from amqproxy.rules.matching.attributes import AttributeSource
from amqproxy.rules.matching.clock_time import ClockTime
from amqproxy.rules.matching.match import Match, MatchedPlaces, Sizes, at_path, at_pointer, networks
from amqproxy.rules.verdict import Stage
from tests.rules.commands import command

CLIENT_FACTS = Client(
    address="10.1.2.3",
    listener="0.0.0.0:5671",
    upstream="rabbit:5672",
    tls_subject="CN=orders",
    sni="amqp.example",
    user="guest",
    vhost="/",
    properties={"product": "pika", "clientName": "billing", "capabilities": {"basic.nack": True, "depth": 2}},
)
MESSAGE = Properties(priority=3, type="order", headers=Table({"tier": "gold", "n": 5, "flag": True, "raw": b"ab"}))
PUBLISH = command(
    BasicPublish(exchange="orders", routing_key="eu.new"), 1, MESSAGE, b'{"order": {"id": 7, "lines": ["a", "b/c"]}}'
)


def holds(
    match: Match,
    command: Command = PUBLISH,
    sender: Peer = CLIENT,
    *,
    places: MatchedPlaces = MatchedPlaces.ANY,
    **more: Any,
) -> bool:
    context = CommandContext(sender=sender, command=command, client=CLIENT_FACTS, **more)
    is_about = command.method.name in match.methods_in(places)
    return is_about and all(each.holds(context) for each in match.conditions(places))


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        ({}, True),
        ({"sender": "client"}, True),
        ({"sender": "server"}, False),
        ({"method": "basic.publish"}, True),
        ({"method": "basic.*"}, True),
        ({"method": ["queue.*", "basic.publish"]}, True),
        ({"method": "!basic.publish"}, False),
        ({"vhost": "/"}, True),
        ({"vhost": "prod"}, False),
        ({"user": "g*"}, True),
        ({"address": "10.0.0.0/8"}, True),
        ({"address": ["192.168.0.0/16", "10.1.2.3"]}, True),
        ({"address": ["10.0.0.0/8", "!10.1.0.0/16"]}, False),
        ({"address": "!10.0.0.0/8"}, False),
        ({"address": "::1"}, False),
        ({"client": {"product": "pika"}}, True),
        ({"client": {"product": "java"}}, False),
        ({"client": {"capabilities/basic.nack": True}}, True),
        ({"client": {"capabilities/basic.nack": "true"}}, True),
        ({"client": {"capabilities/depth": 2}}, True),
        ({"client": {"capabilities/other": False}}, True),
        ({"client": {"platform": True}}, False),
        ({"client": {"connection_name": "bill*"}}, True),
        ({"client": {"name": "billing"}}, True),
        ({"client": {"name": "other"}}, False),
        ({"connection_name": ["billing", "x"]}, True),
        ({"connection_name": "!billing"}, False),
        ({"listener": "*:5671"}, True),
        ({"upstream": "rabbit:*"}, True),
        ({"tls_subject": "CN=orders"}, True),
        ({"tls_sni": "*.example"}, True),
        ({"exchange": "orders"}, True),
        ({"exchange": "!orders"}, False),
        ({"routing_key": "topic:eu.#"}, True),
        ({"queue": "*"}, False),
        ({"queue": "!q"}, False),
        ({"consumer_tag": "!x"}, False),
        ({"size": {"min": 10, "max": "1KiB"}}, True),
        ({"size": {"min": "1KiB"}}, False),
        ({"size": {}}, True),
        ({"properties": {"priority": 3}}, True),
        ({"properties": {"priority": "3"}}, True),
        ({"properties": {"type": "order"}}, True),
        ({"properties": {"message_id": True}}, False),
        ({"properties": {"message_id": False}}, True),
        ({"properties": {"message_id": "!x"}}, False),
        ({"headers": {"tier": "g*"}}, True),
        ({"headers": {"tier": ["silver", "gold"]}}, True),
        ({"headers": {"n": 5}}, True),
        ({"headers": {"n": 5.0}}, True),
        ({"headers": {"n": 6}}, False),
        ({"headers": {"flag": 1}}, False),
        ({"headers": {"flag": "true"}}, True),
        ({"headers": {"raw": "ab"}}, True),
        ({"headers": {"other": False, "tier": True}}, True),
        ({"body": "*order*"}, True),
        ({"body": 'regex:(?s).*"id": \\d+.*'}, True),
        ({"body": "order"}, False),
        ({"json": {"/order/id": 7}}, True),
        ({"json": {"/order/lines/1": "b/c"}}, True),
        ({"json": {"/order/lines/2": True}}, False),
        ({"json": {"/order/lines": True}}, True),
        ({"json": {"": True}}, True),
        ({"json": {"/order/none": False}}, True),
        ({"time": {"from": "00:00", "to": "01:00"}}, True),
        ({"time": {"days": ["fri"]}}, False),
        ({"sample": 51}, True),
        ({"sample": 50}, False),
    ],
)
def test_what_it_holds_of(match: dict[str, Any], expected: bool) -> None:
    decoded = msgspec.convert(match, Match)
    assert holds(decoded, time=60.0, random=lambda: 0.5) is expected


CC = Properties(headers=Table({"CC": ["c1", "secret"], "BCC": ["b1"]}))
INNER = Table({"x": 1})
TWICE = Properties(headers=Table([Field("CC", "A", Array(["c1"])), Field("CC", "A", Array(["secret"]))]))
DEAD = Table({"x-dead-letter-exchange": "secret", "x-dead-letter-routing-key": "dead"})
DEAD_TWICE = Table([*DEAD.fields, Field("x-dead-letter-exchange", "S", "other")])
TO_QUEUE = Table({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "secret"})
ALTERNATE = Table({"alternate-exchange": "secret"})


@pytest.mark.parametrize(
    ("match", "sent", "is_all"),
    [
        ({"routing_key": "secret"}, command(BasicPublish(exchange="e", routing_key="k"), 1, CC), False),
        ({"routing_key": "b1"}, command(BasicPublish(exchange="e", routing_key="k"), 1, CC), False),
        ({"routing_key": "secret"}, command(BasicPublish(exchange="e", routing_key="k"), 1, TWICE), False),
        ({"routing_key": "!c*"}, command(BasicPublish(exchange="e", routing_key="c0"), 1, CC), False),
        ({"queue": "secret"}, command(BasicPublish(exchange="", routing_key="secret")), True),
        ({"queue": "secret"}, command(BasicPublish(exchange="", routing_key="q"), 1, CC), False),
        ({"exchange": "secret"}, command(QueueDeclare(queue="q", arguments=DEAD)), True),
        ({"exchange": "other"}, command(QueueDeclare(queue="q", arguments=DEAD_TWICE)), False),
        ({"exchange": "secret", "routing_key": "dead"}, command(QueueDeclare(queue="q", arguments=DEAD)), True),
        ({"queue": "secret"}, command(QueueDeclare(queue="q", arguments=TO_QUEUE)), False),
        ({"exchange": "secret"}, command(ExchangeDeclare(exchange="e", arguments=ALTERNATE)), False),
        (
            {"exchange": "secret", "routing_key": "any"},
            command(ExchangeDeclare(exchange="e", arguments=ALTERNATE)),
            False,
        ),
        ({"exchange": "secret"}, command(ExchangeBind(source="e", destination="secret")), False),
        ({"exchange": "secret", "routing_key": "any"}, command(ExchangeBind(source="e", destination="secret")), False),
        ({"exchange": "secret"}, command(ExchangeBind(source="secret", destination="e")), False),
        ({"queue": "secret"}, command(QueueDeclare(queue="sec\nret")), False),
        ({"exchange": "secret"}, command(QueueBind(queue="q", exchange="sec\rret")), False),
    ],
)
def test_a_name_is_looked_for_wherever_it_has_an_effect(match: dict[str, Any], sent: Command, is_all: bool) -> None:
    decoded = msgspec.convert(match, Match)
    assert holds(decoded, sent)
    assert holds(decoded, sent, places=MatchedPlaces.ALL) is is_all


@pytest.mark.parametrize(
    ("match", "sent"),
    [
        (
            {"routing_key": "c*"},
            command(BasicPublish(exchange="e", routing_key="c0"), 1, Properties(headers=Table({"CC": ["c1"]}))),
        ),
        (
            {"queue": "q*"},
            command(BasicPublish(exchange="", routing_key="q0"), 1, Properties(headers=Table({"BCC": ["q1"]}))),
        ),
        ({"exchange": "secret"}, command(QueueDeclare(queue="q", arguments=DEAD))),
        ({"exchange": ["e", "secret"]}, command(ExchangeDeclare(exchange="e", arguments=ALTERNATE))),
        ({"exchange": "?"}, command(ExchangeBind(source="e", destination="f"))),
    ],
)
def test_all_places_can_be_asked_for(match: dict[str, Any], sent: Command) -> None:
    assert holds(msgspec.convert(match, Match), sent, places=MatchedPlaces.ALL)


TWINS = Properties(
    headers=Table(
        [Field("tier", "S", "a"), Field("tier", "S", "b"), Field("in", "F", Table({})), Field("in", "F", INNER)]
    )
)


@pytest.mark.parametrize(
    ("headers", "is_any", "is_all", "is_own"),
    [
        ({"tier": "a"}, True, False, True),
        ({"tier": "b"}, True, False, False),
        ({"tier": "?"}, True, True, True),
        ({"tier": "!a"}, True, False, False),
        ({"tier": False}, False, False, False),
        ({"none": False}, True, True, True),
        ({"in/x": "1"}, True, True, True),
    ],
)
def test_all_entries_of_one_name_are_looked_at(headers: Any, is_any: bool, is_all: bool, is_own: bool) -> None:
    sent = command(BasicPublish(), 1, TWINS)
    assert [holds(Match(headers=headers), sent, places=each) for each in MatchedPlaces] == [is_any, is_all, is_own]


@pytest.mark.parametrize(
    ("match", "sent"),
    [
        ({"queue": "secret"}, command(BasicGet(queue="sec\nret"))),
        ({"queue": "secret"}, command(BasicConsume(queue="sec\rret"))),
        ({"queue": "secret"}, command(QueuePurge(queue="sec\r\nret"))),
        ({"queue": "secret"}, command(QueueDelete(queue="\nsecret"))),
        ({"exchange": "secret"}, command(ExchangeDelete(exchange="secret\n"))),
        ({"destination": "secret"}, command(ExchangeBind(source="e", destination="sec\nret"))),
    ],
)
@pytest.mark.parametrize("places", [MatchedPlaces.ANY, MatchedPlaces.OWN])
def test_line_breaks_hide_no_name(match: dict[str, Any], sent: Command, places: MatchedPlaces) -> None:
    assert holds(Match(**match), sent, places=places)
    assert not holds(Match(**match), sent, places=MatchedPlaces.ALL), "an allowed name hides no other"


def test_a_passive_declare_names_its_queue_and_no_more() -> None:
    passive = command(QueueDeclare(queue="q", passive=True, arguments=TO_QUEUE))
    assert holds(Match(queue="q"), passive)
    assert not holds(Match(queue="secret"), passive)
    assert not holds(Match(exchange="*"), passive)
    assert not holds(
        Match(exchange="secret"), command(ExchangeDeclare(exchange="e", passive=True, arguments=ALTERNATE))
    )


def test_only_a_publish_with_such_a_name_needs_its_header() -> None:
    queue = Match(queue="q").conditions()
    assert [each.stage for each in queue] == [Stage.METHOD, Stage.HEADER]
    assert not queue[0].holds(
        CommandContext(sender=CLIENT, command=command(BasicPublish(exchange="e", routing_key="q")), client=CLIENT_FACTS)
    )
    assert {each.stage for each in Match(exchange="e").conditions()} == {Stage.METHOD}
    assert {each.stage for each in Match(queue="q", method="queue.*").conditions()} == {Stage.METHOD}


def test_what_a_command_lacks_matches_nothing() -> None:
    """Not a negated pattern either: it is no other queue that a publish names, but none."""
    assert not holds(Match(size=Sizes()), command(BasicAck()))
    assert not holds(Match(headers={"x": False}), command(QueueDeclare()))
    assert holds(Match(headers={"x": False}), command(BasicPublish()))
    assert not holds(Match(json={"": True}), command(BasicPublish(), body=b"no json"))


def test_fields_of_other_methods() -> None:
    assert holds(
        Match(arguments={"x-queue-type": "quorum"}), command(QueueDeclare(arguments=Table({"x-queue-type": "quorum"})))
    )
    assert holds(Match(consumer_tag="c"), command(BasicConsume(consumer_tag="c")))
    assert holds(Match(consumer_tag="c"), command(BasicDeliver(consumer_tag="c")), SERVER)
    assert holds(Match(exchange="s", destination="d"), command(ExchangeBind(source="s", destination="d")))


@pytest.mark.parametrize(
    ("match", "methods"),
    [
        (Match(method="basic.ack"), {"basic.ack"}),
        (Match(queue="q", method="basic.*"), {"basic.consume", "basic.get", "basic.publish"}),
        (Match(size=Sizes()), {"basic.publish", "basic.deliver", "basic.return", "basic.get-ok"}),
        (Match(exchange="e", size=Sizes()), {"basic.publish", "basic.deliver", "basic.return", "basic.get-ok"}),
        (Match(method="heartbeat"), {"heartbeat"}),
        (Match(), {*BY_NAME, "heartbeat"}),
        (Match(queue="q", body="*"), {"basic.publish"}),
        (Match(destination="e", body="*"), set()),
    ],
)
def test_the_methods_that_it_can_hold_of(match: Match, methods: set[str]) -> None:
    assert match.methods == methods


def test_what_its_conditions_depend_on() -> None:
    match = Match(user="u", exchange="e", headers={"x": True}, time=ClockTime(), sample=1)
    assert [each.source for each in match.conditions()] == [
        AttributeSource.CLIENT,
        AttributeSource.METHOD,
        AttributeSource.CONTENT,
        AttributeSource.MOMENT,
        AttributeSource.MOMENT,
    ]


@pytest.mark.parametrize(
    ("match", "what"),
    [
        (
            {"method": "basic.pubish"},
            ".method: `basic.pubish` is not a method: did you mean `basic.publish`? - at `$.match`",
        ),
        ({"exchange": "regex:a("}, ".exchange: `a(` is not a regular expression: missing ): a( - at `$.match`"),
        ({"address": "10.0.0/8"}, ".address: `10.0.0/8` is neither an IP address nor a network such as 10.0.0.0/8"),
        (
            {"properties": {"prioriti": 1}},
            ".properties: no message has a property `prioriti`: did you mean `priority`?",
        ),
        ({"properties": {"headers": True}}, ".properties: no message has a property `headers`"),
        ({"headers": {"x": "regex:("}}, ".headers.x: `(` is not a regular expression"),
        ({"client": {"x": []}}, ".client.x: the list is empty"),
        (
            {"size": {"min": "64Kib"}},
            ".min: `64Kib` is not a size: write bytes, or a number and one of B, kB, KB, KiB,",
        ),
        ({"size": {"min": 2, "max": 1}}, "min is 2, and must not be above max, 1 - at `$.match.size`"),
        ({"json": {"a": 1}}, ".json: `a` is not a JSON pointer: it must begin with /"),
        ({"sampel": 3}, "unknown field `sampel` - at `$.match`"),
        ({"sample": 0}, "Expected `float` > 0.0 - at `$.match.sample`"),
        ({"sample": 101}, "Expected `float` <= 100.0 - at `$.match.sample`"),
    ],
)
def test_errors_have_the_key(match: dict[str, Any], what: str) -> None:
    holder = msgspec.defstruct("Holder", [("match", Match)])
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.convert({"match": match}, holder)
    assert what in str(raised.value)


addresses = st.ip_addresses().map(str)


@given(addresses, st.ip_addresses(v=4).map(str), st.integers(0, 32))
def test_networks_are_as_the_standard_library_has_them(address: str, network: str, bits: int) -> None:
    given = f"{network}/{bits}"
    inside = ipaddress.ip_address(address) in ipaddress.ip_network(given, strict=False)
    if ":" not in address:
        assert networks(given)(address) is inside
        assert networks(f"!{given}")(address) is not inside
        assert networks(given)(f"::ffff:{address}") is inside


def test_what_is_no_address_is_in_no_network() -> None:
    assert not networks("0.0.0.0/0")("")
    assert not networks("!10.0.0.0/8")("unix")


@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        ("", {"a": [{"b/c": 1, "d~e": 2}]}),
        ("/a/0/b~1c", 1),
        ("/a/0/d~0e", 2),
        ("/a/1", None),
        ("/a/-", None),
        ("/a/²", None),
        ("/x", None),
        ("/a/0/b~1c/z", None),
    ],
)
def test_json_pointers(pointer: str, found: Any) -> None:
    assert at_pointer({"a": [{"b/c": 1, "d~e": 2}]}, pointer) == found


def test_paths_into_tables() -> None:
    table = Table({"a/b": 1, "a": Table({"b": 2, "c": 3})})
    assert [at_path(table, path) for path in ("a/b", "a/c", "a/d", "x/y", "a/c/e")] == [1, 3, None, None, None]


def test_the_reference_lists_every_key() -> None:
    page = (Path(__file__).parent.parent.parent.parent / "docs" / "rules.md").read_text()
    table = page.partition("## match")[2].partition("### Patterns")[0]
    listed = {key for row in re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE) for key in re.findall(r"`(\w+)`", row)}
    assert listed == set(Match.__struct_fields__)
