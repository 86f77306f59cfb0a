"""Copies."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from amqproxy.amqp091.methods import BasicPublish, QueueDeclare
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Field, Table
from amqproxy.rules.observing import mirror as module
from amqproxy.rules.verdict import Stage, Verdict
from tests.rules.scene import decided, from_client, rule


def mirror(text: str) -> Any:
    return rule('action = "mirror"\n' + text)


@pytest.mark.parametrize(
    ("text", "upstream", "copied"),
    [
        ('exchange = "audit"', None, BasicPublish(exchange="audit", routing_key="k")),
        ('exchange = "audit"\nrouting_key = "all"', None, BasicPublish(exchange="audit", routing_key="all")),
        ('upstream = "shadow"', "shadow", BasicPublish(exchange="e", routing_key="k")),
        ('upstream = "shadow"\nexchange.prefix = "copy."', "shadow", BasicPublish(exchange="copy.e", routing_key="k")),
        ('exchange = ""\nrouting_key.suffix = ".copy"', None, BasicPublish(routing_key="k.copy")),
    ],
)
def test_a_copy_goes_elsewhere(text: str, upstream: str | None, copied: BasicPublish) -> None:
    made = mirror(text)
    assert (made.needs, made.methods) == (Stage.BODY, {"basic.publish"})
    context = from_client(BasicPublish(0, "e", "k", mandatory=True), Properties(type="t"), b"body", number=3)
    verdict = decided(made, context)
    [copy] = verdict.mirrored
    assert verdict == Verdict(command=context.command, mirrored=(copy,))
    assert (copy.upstream, copy.command.method, copy.command.channel) == (upstream, copied, 3)
    assert (copy.command.properties, copy.command.body) == (Properties(type="t"), b"body")
    assert copy.command.is_complete


def test_a_copy_asks_for_nothing_back() -> None:
    headers = Table([Field("CC", "A", ["x"]), Field("n", "B", 1), Field("BCC", "A", ["y"])])
    old = Properties(user_id="u", reply_to="q", correlation_id="c", headers=headers)
    [copy] = decided(mirror('exchange = "audit"'), from_client(BasicPublish(), old)).mirrored
    assert copy.command.properties == Properties(correlation_id="c", headers=Table([Field("n", "B", 1)]))
    [copy] = decided(mirror('exchange = "audit"\nkeeps_reply_to = true'), from_client(BasicPublish(), old)).mirrored
    assert copy.command.properties.reply_to == "q"


class Undecoded:
    """A name that must not be looked up in a table, since that would decode the table."""

    def isdisjoint(self, names: object) -> bool:
        raise AssertionError("the table is decoded")


def test_a_table_that_is_copied_as_it_came_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_COPIES", Undecoded())
    came = Table({f"k{number}": "v" for number in range(1000)}).octets
    old = Properties(headers=Table.from_octets(came))
    [copy] = decided(mirror('exchange = "audit"'), from_client(BasicPublish(), old)).mirrored
    assert copy.command.properties.headers.octets == came


def test_a_copy_may_contain_its_origin() -> None:
    made = mirror('exchange = "audit"\nheaders.set = {from = "{exchange}", by = "{user}"}')
    context = from_client(BasicPublish(exchange="e"))
    verdict = decided(made, context)
    assert verdict.mirrored[0].command.properties.headers == {"from": "e", "by": "guest"}
    assert verdict.command is context.command


@pytest.mark.parametrize(("drawn", "copies"), [(0.0, 1), (0.24, 1), (0.25, 0), (0.9, 0)])
def test_a_sample_of_them(drawn: float, copies: int) -> None:
    made = mirror('upstream = "shadow"\npercent = 25')
    assert len(decided(made, from_client(BasicPublish(), random=lambda: drawn)).mirrored) == copies


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the copy goes where the original goes"),
        ('exchange = "a"\npercent = 0', "> 0"),
        ('exchange = "a"\nmatch.method = "basic.deliver"', "only basic.publish can be mirrored, not basic.deliver"),
    ],
)
def test_what_makes_no_sense_is_not_loaded(text: str, reason: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=reason):
        mirror(text)


def test_what_is_no_publish_is_not_shown_to_it() -> None:
    assert "queue.declare" not in mirror('exchange = "a"').methods
    assert QueueDeclare.name == "queue.declare"
