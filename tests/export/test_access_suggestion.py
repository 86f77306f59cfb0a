"""Access lists made of captures: everything in them passes, nothing else does, and no line is one too many."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp091.methods import (
    BasicConsume,
    BasicGet,
    BasicPublish,
    ExchangeBind,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import Decoded
from amqproxy.export import access_evidence
from amqproxy.export.access_suggestion import AccessCheck, SuggestedAccess, as_toml, as_yaml, suggested
from amqproxy.rules.access.access_list import Line
from tests.amqp010 import recorded
from tests.capture import golden, shared_captures
from tests.example_count import example_count
from tests.export.dialogue import Dialogue


def list_for(*decoded: Iterable[Decoded]) -> SuggestedAccess:
    everything = list(chain(*decoded))
    return suggested(lambda: everything)


def lines_for(*decoded: Iterable[Decoded]) -> list[str]:
    return [each.text.removeprefix("allow ") for each in list_for(*decoded).lines]


def refused(access: SuggestedAccess, decoded: Iterable[Decoded]) -> list[str]:
    check = AccessCheck(as_toml(access, ["a.pcapng"]), Path("a.toml"))
    return [each.method for each in check.play(decoded)]


def assert_least(access: SuggestedAccess, decoded: Sequence[Decoded]) -> None:
    """Under the list all passes; without any one of its lines, or of their acts, something is refused."""
    assert refused(access, decoded) == []
    for place, line in enumerate(access.lines):
        for left_out, _ in line.acts:
            left = [act for act, _ in line.acts if act != left_out]
            text = line.text.replace(f" to {', '.join(act for act, _ in line.acts)}", f" to {', '.join(left)}")
            lines = (msgspec.structs.replace(line, text=text),) if left else ()
            shorter = msgspec.structs.replace(access, lines=(*access.lines[:place], *lines, *access.lines[place + 1 :]))
            assert refused(shorter, decoded), (line.text, left_out)


CAPTURES = [*golden.captures(), *(path for path in shared_captures.files() if "010" not in path.name)]


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name.partition(".pcap")[0])
def test_what_is_suggested_is_the_least_under_which_a_capture_passes(path: Path) -> None:
    decoded = list(read_decoded(path))
    access = list_for(decoded)
    assert_least(access, decoded)
    assert as_yaml(access, ["a"]).count("\n") >= len(access.lines)
    assert (
        yaml.safe_load(as_yaml(access, ["a"]))["rules"][0]["lines"].strip()
        == as_toml(access, ["a"]).split("'''")[1].strip()
    )


def test_what_was_not_seen_is_refused() -> None:
    seen = Dialogue().declare("orders").publish("", "orders").publish("events", "a.b").end()
    access = list_for(seen)
    assert_least(access, seen)
    assert [each.text for each in access.lines] == [
        'allow user "app" vhost "/" to connect',
        'allow user "app" vhost "/" to publish exchange "events" routing_key "a.b"',
        'allow user "app" vhost "/" to publish, declare queue "orders"',
    ]
    other = Dialogue().publish("", "others").publish("events", "a.c").publish("elsewhere", "a.b").end()
    assert refused(access, other) == ["basic.publish"] * 3
    consuming = Dialogue().client(BasicConsume(queue="orders")).end()
    assert refused(access, consuming) == ["basic.consume"]
    assert refused(access, Dialogue("eve").end()) == ["connection.open"]
    assert refused(access, Dialogue(vhost="prod").end()) == ["connection.open"]


def test_each_user_has_lines_of_its_own() -> None:
    decoded = [
        *Dialogue("anna", stream=0).publish("e", "k").end(),
        *Dialogue("bert", "prod", stream=1).publish("e", "k").publish("e", "k").end(),
    ]
    access = list_for(decoded)
    assert_least(access, decoded)
    assert [each.text for each in access.lines] == [
        'allow user "anna" vhost "/" to connect',
        'allow user "anna" vhost "/" to publish exchange "e" routing_key "k"',
        'allow user "bert" vhost "prod" to connect',
        'allow user "bert" vhost "prod" to publish exchange "e" routing_key "k"',
    ]
    assert "# user bert, vhost prod\n" in as_toml(access, ["a.pcapng"])
    evidence = "# 2 publish; first 2023-11-14 22:13:21 on #1 10.0.0.1:40001-10.0.0.2:5672\n"
    assert evidence in as_toml(access, ["a.pcapng"])


def test_a_client_whose_login_was_not_seen_is_known_by_its_address() -> None:
    decoded = Dialogue(is_joined=True, address="10.1.2.3").publish("", "q").end()
    access = list_for(decoded)
    assert [each.text for each in access.lines] == ['allow address "10.1.2.3" to publish queue "q"']
    assert "# user unknown, since its login is not there; from 10.1.2.3, vhost unknown\n" in as_toml(access, ["a"])
    assert_least(access, decoded)


def test_names_that_were_generated_become_patterns() -> None:
    dialogue = Dialogue()
    for number in range(3):
        dialogue.declare("", named=f"amq.gen-JzTY20BRgKO-HjmUJj0wL{number}").client(BasicConsume())
        dialogue.publish("", f"reply.{uuid.UUID(int=number)}").publish("events", f"customer.{number}.changed")
    dialogue.publish("events", "v2").publish("events", "day.20240131")
    access = list_for(dialogue.end())
    assert_least(access, dialogue.decoded)
    hexadecimal = "[0-9A-Fa-f]"
    group = f"{hexadecimal}{{4}}"
    assert [each.text.removeprefix('allow user "app" vhost "/" to ') for each in access.lines] == [
        "connect",
        r'publish exchange "events" routing_key "regex:customer\.[0-9]+\.changed"',
        r'publish exchange "events" routing_key "regex:day\.[0-9]+"',
        'publish exchange "events" routing_key "v2"',
        rf'publish queue "regex:reply\.{hexadecimal}{{8}}-{group}-{group}-{group}-{hexadecimal}{{12}}"',
        'consume queue "amq.gen-*"',
        'declare queue ""',
    ]


def test_where_something_was_seen_first_is_known_of_names_that_become_a_pattern() -> None:
    dialogue = Dialogue()
    for number in range(5):
        dialogue.publish("orders", f"eu.{number}")
    begun = dialogue.decoded[0]
    (publish,) = [each for each in list_for(dialogue.end()).lines if each.acts[0][0] == "publish"]
    assert publish.first.count == 5
    assert (publish.first.stream, publish.first.connection) == (begun.stream, begun.connection)
    assert begun.ts_ns < publish.first.ts_ns < begun.ts_ns + 10**9


def test_a_wide_line_makes_the_narrow_ones_it_covers_superfluous() -> None:
    """Dead letters may have any routing key, so their exchange is allowed with any."""
    dead = QueueDeclare(queue="q", arguments=Table({"x-dead-letter-exchange": "dlx"}))
    alternate = ExchangeDeclare(exchange="e", arguments=Table({"alternate-exchange": "rest"}))
    dialogue = Dialogue().client(dead, alternate).publish("dlx", "k").publish("rest", "k")
    dialogue.client(QueueBind(queue="q", exchange="e", routing_key="k"))
    dialogue.client(ExchangeBind(source="a", destination="b", routing_key="k")).publish("b", "k")
    decoded = dialogue.end()
    access = list_for(decoded)
    assert_least(access, decoded)
    assert [each.text.removeprefix('allow user "app" vhost "/" to ') for each in access.lines] == [
        "connect",
        'publish exchange "b"',
        'publish exchange "dlx"',
        'publish exchange "rest"',
        'consume, declare queue "q"',
        'declare, bind exchange "e"',
        'bind exchange "a" routing_key "k"',
        'bind exchange "b" routing_key "k"',
    ]


def test_copies_of_a_publish_are_allowed_too() -> None:
    copied = Properties(headers=Table({"CC": ["copy"], "BCC": ["hidden"]}))
    decoded = Dialogue().publish("", "q", properties=copied).publish("e", "k", properties=copied).end()
    access = list_for(decoded)
    assert_least(access, decoded)
    assert len(access.lines) == 1 + 3 + 3


@pytest.mark.parametrize(
    "name",
    ["with space", "*", "a*b?", "!not", "is:so", "regex:x", "topic:#", 'quo"te', "back\\slash\\", "'''", "line\nbreak",
     "é☃", "", "tab\t", "#no comment", "; otherwise allow", '" to any #'],
)  # fmt: skip
def test_no_name_means_anything_else_than_itself(name: str) -> None:
    """Neither as a pattern, nor in the list, nor in the file."""
    decoded = Dialogue(name or "app", name).publish("e", name).client(BasicConsume(queue=name)).end()
    access = list_for(decoded)
    assert_least(access, decoded)
    other = Dialogue(name or "app", name).publish("e", f"{name}.").client(BasicConsume(queue=f"x{name}")).end()
    assert set(refused(access, other)) == {"basic.publish", "basic.consume"}
    as_yaml_config = AccessCheck(as_yaml(access, [name]), Path("a.yaml"))
    assert list(as_yaml_config.play(decoded)) == []


def test_names_that_are_not_utf_8_can_be_allowed() -> None:
    decoded = Dialogue("\udcff", "\udcfe").publish("e", "\udcff\udcfe").end()
    access = list_for(decoded)
    assert_least(access, decoded)
    assert refused(access, Dialogue("\udcff", "\udcfe").publish("e", "\udcff").end()) == ["basic.publish"]


def test_too_many_names_become_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_evidence, "MAX_SHAPES", 5)
    words = [chr(ord("a") + number) for number in range(20)]
    dialogue = Dialogue()
    for word in words:
        dialogue.publish("events", word).publish("", f"queue-{word}").client(
            QueueBind(queue=word, exchange="x", routing_key=word)
        )
    access = list_for(dialogue.end())
    assert_least(access, dialogue.decoded)
    assert [each.text.removeprefix('allow user "app" vhost "/" to ') for each in access.lines[1:]] == [
        'publish exchange "events" routing_key "*"',
        'publish queue "*"',
        'bind exchange "x" queue "*" routing_key "*"',
    ]
    assert all(each.is_widened for each in access.lines[1:])
    assert "; too many names to list\n" in as_toml(access, ["a"])


def test_the_lines_of_other_users_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a thousand users of fifty names each, every operation was compared with 50,000 lines."""
    asked: list[Line] = []
    is_for = Line.is_for
    monkeypatch.setattr(Line, "is_for", lambda line, context: asked.append(line) or is_for(line, context))
    decoded = [
        each
        for stream in range(20)
        for each in Dialogue(f"user{stream}", stream=stream).publish("orders", "new").publish("orders", "old").end()
    ]
    access = list_for(decoded)
    assert len(access.lines) == 60
    assert len(asked) == 20 * 3 * 3


def test_too_many_users_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_evidence, "MAX_CLIENTS", 2)
    with pytest.raises(access_evidence.TooManyClients, match="more than 2 users"):
        list_for(*(Dialogue(f"user {number}", stream=number).end() for number in range(3)))


def test_what_ends_takes_no_memory() -> None:
    evidence = access_evidence.AccessEvidence()
    for stream in range(3):
        for each in Dialogue(stream=stream).content(BasicPublish(routing_key="q"), b"body").end():
            evidence.feed(each)
    assert evidence._clients == {}
    assert evidence.connections == 3


NAMES = st.sampled_from(["a", "b", "q1", "q2", "q3", "amq.gen-JzTY20BRgKO-HjmUJj0wLg", "x.*", "", "line\nbreak"])
TABLES = st.dictionaries(
    st.sampled_from(["x-dead-letter-exchange", "x-dead-letter-routing-key", "alternate-exchange"]), NAMES, max_size=2
).map(Table)
METHODS = st.one_of(
    st.builds(BasicConsume, queue=NAMES),
    st.builds(BasicGet, queue=NAMES),
    st.builds(QueueDeclare, queue=NAMES, passive=st.booleans(), arguments=TABLES),
    st.builds(QueueBind, queue=NAMES, exchange=NAMES, routing_key=NAMES),
    st.builds(QueueDelete, queue=NAMES),
    st.builds(ExchangeDeclare, exchange=NAMES, arguments=TABLES),
    st.builds(ExchangeBind, source=NAMES, destination=NAMES, routing_key=NAMES),
    st.builds(BasicPublish, exchange=NAMES, routing_key=NAMES),
)


@settings(max_examples=example_count(25), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["anna", "bert", ""]), st.lists(METHODS, max_size=6)), min_size=1, max_size=3)
)
def test_the_list_is_the_least_whatever_clients_do(clients: list[tuple[str, list[Method]]]) -> None:
    decoded: list[Decoded] = []
    for stream, (user, methods) in enumerate(clients):
        dialogue = Dialogue(user, stream=stream, is_joined=not user)
        for method in methods:
            if isinstance(method, BasicPublish):
                dialogue.content(method, b"", Properties(headers=Table({"CC": ["copy"]}), reply_to="r"))
            else:
                dialogue.client(method)
        decoded += dialogue.end()
    access = list_for(decoded)
    if access.lines:
        assert_least(access, decoded)


def test_the_user_of_a_login_by_scram_over_0_10() -> None:
    passed = list(read_decoded(recorded.capture("brokerj9.2__jms-010-tx")))
    access = suggested(lambda: iter(passed))
    text = as_toml(access, ["tx"])
    assert "# user guest, vhost test" in text
    assert 'allow user "guest" vhost "test" to publish, consume, declare queue "jms.tx"' in text
    assert "user unknown" not in text
