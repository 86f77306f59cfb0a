"""Names of the client's in the broker's commands, and the other way round: there and back again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.methods import (
    BY_INDEX,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicPublish,
    BasicReturn,
    ChannelClose,
    ConnectionClose,
    ConnectionOpen,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueUnbind,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import CLIENT, SENDERS, SERVER
from amqproxy.amqp091.wire import Field, Table
from amqproxy.conversion.view_fields import FALLS_BACK
from amqproxy.rules.matching.operations import exchanges_of, queues_of, routing_keys_of
from amqproxy.rules.rewriting import name_fields
from tests.amqp091 import strategies
from tests.rules.rewriting.rewrite_helpers import TENANT, evaluator_of, rewrite, to_broker, to_client
from tests.rules.scene import decided, from_client, from_server, left, memory, passes, rule

DEAD_WITH_OWN_KEYS = QueueDeclare(queue="q", arguments=Table({"x-dead-letter-exchange": ""}))


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ('exchange = "new"', BasicPublish(exchange="old"), BasicPublish(exchange="new")),
        ('exchange = "new"', BasicPublish(exchange=""), BasicPublish(exchange="new")),
        (
            'exchange = ""\nrouting_key = "q"',
            BasicPublish(exchange="e", routing_key="k"),
            BasicPublish(routing_key="q"),
        ),
        ('exchange.prefix = "p."', ExchangeDeclare(exchange="e"), ExchangeDeclare(exchange="p.e")),
        ('exchange.prefix = "p."', ExchangeDeclare(exchange="amq.topic"), ExchangeDeclare(exchange="amq.topic")),
        ('exchange.prefix = "p."', ExchangeDelete(exchange="e"), ExchangeDelete(exchange="p.e")),
        (
            'exchange.prefix = "p."',
            ExchangeBind(destination="d", source="s"),
            ExchangeBind(destination="p.d", source="p.s"),
        ),
        ('exchange.prefix = "p."', QueueBind(queue="q", exchange="e"), QueueBind(queue="q", exchange="p.e")),
        ('exchange.prefix = "p."', BasicPublish(routing_key="q"), BasicPublish(routing_key="q")),
        ('queue.prefix = "p."', BasicPublish(routing_key="q"), BasicPublish(routing_key="p.q")),
        (
            'queue.prefix = "p."',
            BasicPublish(exchange="e", routing_key="k"),
            BasicPublish(exchange="e", routing_key="k"),
        ),
        ('queue.prefix = "p."', QueueDeclare(queue="q"), QueueDeclare(queue="p.q")),
        ('queue.prefix = "p."', QueueDeclare(queue=""), QueueDeclare(queue="")),
        ('queue = "one"', QueueDeclare(queue=""), QueueDeclare(queue="")),
        ('queue.prefix = "p."', BasicGet(queue="amq.gen-1"), BasicGet(queue="amq.gen-1")),
        ('queue.prefix = "p."', QueueUnbind(queue="q"), QueueUnbind(queue="p.q")),
        (
            'routing_key.prefix = "p."',
            BasicPublish(exchange="e", routing_key="k"),
            BasicPublish(exchange="e", routing_key="p.k"),
        ),
        ('routing_key.prefix = "p."', BasicPublish(routing_key="q"), BasicPublish(routing_key="q")),
        (
            'routing_key.prefix = "p."',
            QueueBind(queue="q", exchange="e", routing_key="a.#"),
            QueueBind(queue="q", exchange="e", routing_key="p.a.#"),
        ),
        (
            "routing_key.from = 'regex:(.*)\\.(.*)'\nrouting_key.to = '\\2.\\1'",
            BasicPublish(exchange="e", routing_key="a.b"),
            BasicPublish(exchange="e", routing_key="b.a"),
        ),
        (
            'routing_key.names = {a = "b"}',
            BasicPublish(exchange="e", routing_key="a"),
            BasicPublish(exchange="e", routing_key="b"),
        ),
        (
            'consumer_tag.suffix = ".{user}"',
            BasicConsume(queue="q", consumer_tag="t"),
            BasicConsume(queue="q", consumer_tag="t.guest"),
        ),
        ('consumer_tag.suffix = ".x"', BasicConsume(queue="q"), BasicConsume(queue="q")),
        ('vhost = "production"', ConnectionOpen("/"), ConnectionOpen("production")),
        ('vhost.prefix = "p-"', ConnectionOpen("v"), ConnectionOpen("p-v")),
        ('vhost.names = {"/" = "main"}', ConnectionOpen("/"), ConnectionOpen("main")),
        (
            'exchange.prefix = "e."\nqueue.prefix = "q."',
            QueueDeclare(queue="a", arguments=Table({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "b"})),
            QueueDeclare(
                queue="q.a", arguments=Table({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q.b"})
            ),
        ),
        (
            'exchange.prefix = "e."\nfollows = []',
            QueueDeclare(queue="a", arguments=Table({"x-dead-letter-exchange": "dlx"})),
            QueueDeclare(queue="a", arguments=Table({"x-dead-letter-exchange": "dlx"})),
        ),
        (
            'exchange.prefix = "e."',
            ExchangeDeclare(exchange="a", arguments=Table([Field("alternate-exchange", "S", "b"), Field("n", "B", 1)])),
            ExchangeDeclare(
                exchange="e.a", arguments=Table([Field("alternate-exchange", "S", "e.b"), Field("n", "B", 1)])
            ),
        ),
    ],
)
def test_names_there(text: str, before: Method, after: Method) -> None:
    made = rewrite(text)
    assert before.name in made.methods
    context = from_client(before)
    command = left(made, context)
    assert command.method == after
    assert (command is context.command) == (before == after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            BasicDeliver("guest.t", 1, exchange="guest.e", routing_key="k"),
            BasicDeliver("t", 1, exchange="e", routing_key="k"),
        ),
        (
            BasicDeliver("amq.ctag-1", 1, exchange="", routing_key="guest.q"),
            BasicDeliver("amq.ctag-1", 1, routing_key="q"),
        ),
        (
            BasicDeliver("guest.t", 1, exchange="other", routing_key="k"),
            BasicDeliver("t", 1, exchange="other", routing_key="k"),
        ),
        (BasicGetOk(1, exchange="guest.e", routing_key="guest.k"), BasicGetOk(1, exchange="e", routing_key="guest.k")),
        (BasicReturn(exchange="", routing_key="guest.q"), BasicReturn(exchange="", routing_key="q")),
        (QueueDeclareOk("guest.q", 1, 2), QueueDeclareOk("q", 1, 2)),
        (QueueDeclareOk("amq.gen-1"), QueueDeclareOk("amq.gen-1")),
        (BasicConsumeOk("guest.t"), BasicConsumeOk("t")),
        (BasicCancel("guest.t"), BasicCancel("t")),
        (BasicCancelOk("guest.t"), BasicCancelOk("t")),
        (
            ChannelClose(404, "NOT_FOUND - no exchange 'guest.e' in vhost '/'"),
            ChannelClose(404, "NOT_FOUND - no exchange 'e' in vhost '/'"),
        ),
        (
            ChannelClose(404, "NOT_FOUND - no queue 'guest.q' in vhost '/'", 50, 10),
            ChannelClose(404, "NOT_FOUND - no queue 'q' in vhost '/'", 50, 10),
        ),
        (
            ConnectionClose(530, "NOT_ALLOWED - attempt to reuse consumer tag 'guest.t'"),
            ConnectionClose(530, "NOT_ALLOWED - attempt to reuse consumer tag 't'"),
        ),
    ],
    ids=lambda method: method.name,
)
def test_names_are_restored_that_this_client_never_used(before: Method, after: Method) -> None:
    made = rule(TENANT)
    assert before.name in made.restores(SERVER)
    context = from_server(before)
    restored = made.restore(context, memory(made)).command
    assert restored is not None
    assert restored.method == after
    assert passes(rewrite('exchange.prefix = "x."'), context)  # the broker's words are not sent there, only back


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ('queue.names = {secret = "open"}', QueueDelete(queue="sec\nret"), QueueDelete(queue="open")),
        ('queue.strip_prefix = "a."', QueueDeclare(queue="\ra.q"), QueueDeclare(queue="q")),
        ('exchange = {from = "secret", to = "open"}', QueueBind(exchange="secret\n"), QueueBind(exchange="open")),
        ('match.queue = "secret"\nqueue = "open"', QueueDelete(queue="sec\nret"), QueueDelete(queue="open")),
        ('queue.prefix = "p."', QueueDelete(queue="sec\nret"), QueueDelete(queue="p.sec\nret")),
        ('queue.names = {other = "open"}', QueueDelete(queue="sec\nret"), QueueDelete(queue="sec\nret")),
        ('routing_key.names = {a = "b"}', QueueBind(routing_key="a\n"), QueueBind(routing_key="a\n")),
    ],
)
def test_line_breaks_keep_no_name_from_being_changed(text: str, before: Method, after: Method) -> None:
    assert to_broker(evaluator_of(rewrite(text)), before).method == after


def test_one_way_only() -> None:
    made = rewrite('both_ways = false\nexchange.prefix = "p."')
    assert (made.restores(SERVER), made.restores(CLIENT)) == (frozenset(), frozenset())
    assert rewrite('follows = []\nexchange.prefix = "p."').restores(SERVER) == {
        "basic.deliver",
        "queue.declare-ok",
        "basic.get-ok",
        "basic.return",
    }


def test_server_named_queues_and_consumers_come_through_both_ways() -> None:
    evaluator = evaluator_of(rule(TENANT))
    assert to_broker(evaluator, QueueDeclare(queue="")).method.queue == ""
    assert to_client(evaluator, QueueDeclareOk("amq.gen-X")).method.queue == "amq.gen-X"
    assert to_broker(evaluator, QueueBind(queue="amq.gen-X", exchange="e")).method == QueueBind(
        queue="amq.gen-X", exchange="guest.e"
    )
    assert to_broker(evaluator, BasicPublish(routing_key="amq.gen-X")).method.routing_key == "amq.gen-X"
    assert to_broker(evaluator, BasicConsume(queue="amq.gen-X")).method == BasicConsume(queue="amq.gen-X")
    assert to_client(evaluator, BasicConsumeOk("amq.ctag-1")).method.consumer_tag == "amq.ctag-1"
    assert to_client(evaluator, BasicDeliver("amq.ctag-1", 1, exchange="guest.e")).method == BasicDeliver(
        "amq.ctag-1", 1, exchange="e"
    )
    assert to_broker(evaluator, BasicCancel("amq.ctag-1")).method.consumer_tag == "amq.ctag-1"
    assert to_broker(evaluator, QueueDelete(queue="amq.gen-X")).method.queue == "amq.gen-X"
    replies = Properties(reply_to="amq.rabbitmq.reply-to")
    assert to_broker(evaluator, BasicPublish(exchange="e"), replies).properties == replies


def test_a_consumer_is_known_by_its_tag_whether_or_not_its_queue_matches() -> None:
    evaluator = evaluator_of(rewrite('match.queue = "orders"\nconsumer_tag.prefix = "p."'))
    assert to_broker(evaluator, BasicConsume(queue="orders", consumer_tag="t")).method.consumer_tag == "p.t"
    assert to_broker(evaluator, BasicConsume(queue="other", consumer_tag="u")).method.consumer_tag == "u"
    assert to_client(evaluator, BasicConsumeOk("p.t")).method.consumer_tag == "t"
    assert to_broker(evaluator, BasicCancel("t")).method.consumer_tag == "p.t"
    assert to_broker(evaluator, BasicCancel("u")).method.consumer_tag == "u"
    assert to_client(evaluator, BasicCancel("p.t")).method.consumer_tag == "t"


def test_two_rules_rename_in_order_and_back_in_reverse() -> None:
    evaluator = evaluator_of(
        rewrite('exchange.prefix = "a."\nconsumer_tag.prefix = "a."', name="first"),
        rewrite('exchange.prefix = "b."\nconsumer_tag.prefix = "b."', name="second"),
    )
    assert to_broker(evaluator, BasicPublish(exchange="e")).method.exchange == "b.a.e"
    assert to_client(evaluator, BasicDeliver(exchange="b.a.e")).method.exchange == "e"
    assert to_broker(evaluator, BasicConsume(queue="q", consumer_tag="t")).method.consumer_tag == "b.a.t"
    assert to_client(evaluator, BasicConsumeOk("b.a.t")).method.consumer_tag == "t"
    assert to_broker(evaluator, BasicCancel("t")).method.consumer_tag == "b.a.t"


def test_names_that_cannot_be_computed_back_are_remembered() -> None:
    evaluator = evaluator_of(rewrite("routing_key.from = 'regex:(.*)\\.v1'\nrouting_key.to = '\\1'"))
    assert to_client(evaluator, BasicReturn(exchange="e", routing_key="orders")).method.routing_key == "orders"
    assert to_broker(evaluator, BasicPublish(exchange="e", routing_key="orders.v1")).method.routing_key == "orders"
    assert to_client(evaluator, BasicReturn(exchange="e", routing_key="orders")).method.routing_key == "orders.v1"
    assert to_broker(evaluator, BasicPublish(exchange="e", routing_key="orders")).method.routing_key == "orders"
    assert to_client(evaluator, BasicReturn(exchange="e", routing_key="orders")).method.routing_key == "orders"


def test_a_literal_name_comes_back_as_the_one_that_the_match_names() -> None:
    evaluator = evaluator_of(rewrite('match.exchange = "orders"\nexchange = "orders.v2"'))
    assert to_client(evaluator, BasicDeliver(exchange="orders.v2")).method.exchange == "orders"
    assert to_broker(evaluator, BasicPublish(exchange="orders")).method.exchange == "orders.v2"
    assert to_broker(evaluator, BasicPublish(exchange="orders.v2")).method.exchange == "orders.v2"


def test_what_died_comes_back_under_its_own_names() -> None:
    evaluator = evaluator_of(rule(TENANT))
    death = {"count": 1, "exchange": "guest.e", "queue": "guest.q", "routing-keys": ["k"]}
    headers = Table({"x-death": [death], "x-first-death-queue": "guest.q", "other": "guest.q"})
    dead = to_client(evaluator, BasicDeliver("guest.t", 1, exchange="guest.dlx"), Properties(headers=headers), b"x")
    assert dict(dead.properties.headers) == {
        "x-death": [{"count": 1, "exchange": "e", "queue": "q", "routing-keys": ["k"]}],
        "x-first-death-queue": "q",
        "other": "guest.q",
    }
    assert dead.body == b"x"
    again = to_broker(evaluator, BasicPublish(exchange="e"), dead.properties, b"x")
    assert again.properties.headers == headers


def test_where_to_reply_and_copies() -> None:
    evaluator = evaluator_of(rule(TENANT))
    asked = Properties(reply_to="replies", headers=Table({"CC": ["a"], "BCC": ["b"]}))
    sent = to_broker(evaluator, BasicPublish(routing_key="q"), asked, b"x")
    assert (sent.properties.reply_to, dict(sent.properties.headers)) == (
        "guest.replies",
        {"CC": ["guest.a"], "BCC": ["guest.b"]},
    )
    came = to_client(evaluator, BasicDeliver("guest.t", 1, routing_key="guest.q"), sent.properties, b"x")
    assert came.properties == asked


def test_headers_without_names_are_not_touched() -> None:
    made = rewrite('exchange.prefix = "p."')
    context = from_server(BasicDeliver(exchange="e"), Properties(headers=Table({"a": 1})), b"x")
    restored = made.restore(context, memory(made)).command
    assert restored is context.command


def test_a_name_that_grows_too_long_is_refused_and_one_that_cannot_come_back_stays() -> None:
    with pytest.raises(ValueError, match="at most 255 bytes"):
        decided(rewrite('exchange.prefix = "prefix."'), from_client(BasicPublish(exchange="e" * 250)))
    made = rewrite('exchange.strip_prefix = "prefix."')
    context = from_server(BasicDeliver(exchange="e" * 250))
    assert made.restore(context, memory(made)).command is context.command


# --- there and back again

words = st.sampled_from(["", "a", "guest.a", "guest.", "amq.gen-1", "amq.topic", "x.y", "é" * 20])
FORWARD: dict[type[Method], type[Method]] = {
    QueueDeclare: QueueDeclareOk,
    BasicConsume: BasicConsumeOk,
    BasicPublish: BasicReturn,
    BasicCancel: BasicCancelOk,
}


@given(
    st.lists(st.tuples(st.sampled_from(list(FORWARD)), words, words), min_size=1, max_size=12),
    st.sampled_from(["prefix", "suffix"]),
)
def test_what_the_broker_answers_has_the_names_that_the_client_used(
    requests: list[tuple[type[Method], str, str]], affix: str
) -> None:
    keys = {noun: {affix: "{user}."} for noun in ("exchange", "queue", "routing_key", "consumer_tag")}
    evaluator = evaluator_of(rule("", action="rewrite", **keys))
    consumers = {""}
    for kind, first, second in requests:
        if kind is BasicCancel and first not in consumers:
            continue  # what there is no consumer of has no other name
        if kind is BasicConsume:
            consumers.add(second)
        fields = [f for f in ("exchange", "queue", "routing_key", "consumer_tag") if f in kind.__struct_fields__]
        names = dict(zip(fields, (first, second), strict=False))
        sent = to_broker(evaluator, kind(**names)).method
        answer = FORWARD[kind]
        echoed = {f: getattr(sent, f) for f in fields if f in answer.__struct_fields__}
        heard_back = to_client(evaluator, answer(**echoed)).method
        assert {f: getattr(heard_back, f) for f in echoed} == {f: names[f] for f in echoed}


@given(st.data())
def test_nothing_but_names_is_ever_renamed(data: st.DataObject) -> None:
    """In any command of the client, all that is not a name stays; a rule without names to change leaves it alone."""
    made = rewrite('exchange.from = "is:\\u0000none"\nexchange.to = "x"')
    method = data.draw(strategies.methods.filter(lambda each: CLIENT in SENDERS[each.name]))
    assert passes(made, from_client(method, data.draw(strategies.properties)))


@pytest.mark.parametrize(
    ("text", "method", "does_escape"),
    [
        (TENANT, BasicPublish(reserved_1=FALLS_BACK, exchange="e", routing_key="other.q"), True),
        (TENANT, BasicPublish(reserved_1=FALLS_BACK, exchange="e"), False),
        (TENANT, BasicPublish(exchange="e", routing_key="other.q"), False),
        (TENANT, BasicPublish(reserved_1=FALLS_BACK, exchange="", routing_key="q"), False),
        ('queue.prefix = "{user}."', BasicPublish(reserved_1=FALLS_BACK, exchange="other.q"), True),
        ('queue.prefix = "p."', BasicPublish(reserved_1=FALLS_BACK, exchange="e", routing_key="q"), False),
        (
            'match.user = "guest"\nqueue.prefix = "guest."',
            BasicPublish(reserved_1=FALLS_BACK, exchange="e", routing_key="q"),
            True,
        ),
        ('match.user = "guest"\nqueue.prefix = "guest."', DEAD_WITH_OWN_KEYS, True),
        (TENANT, DEAD_WITH_OWN_KEYS, True),
        ('queue.prefix = "p."', DEAD_WITH_OWN_KEYS, False),
    ],
)
def test_messages_do_not_reach_queues_by_keys_that_stay(text: str, method: Method, does_escape: bool) -> None:
    evaluator = evaluator_of(rule(text) if text.startswith("\n") else rewrite(text))
    verdict = evaluator.evaluate(from_client(method, client=evaluator.client))
    assert (verdict.close is not None and verdict.close.code == 403) is does_escape


def _places(made: Method) -> dict[str, list[str]]:
    """The names that rules find in a method, by what they are names of."""
    command = from_client(made).command
    return {
        "exchange": exchanges_of(command),
        "queue": [name for name in queues_of(command) if isinstance(name, str)],
        "key": [name for name in routing_keys_of(command) if isinstance(name, str)],
    }


@pytest.mark.parametrize(
    "kind", [kind for kind in BY_INDEX if CLIENT in SENDERS[kind.name]], ids=lambda kind: kind.name
)
@pytest.mark.parametrize("exchange", ["", "exchange"])
def test_every_name_that_rules_find_is_changed(kind: type[Method], exchange: str) -> None:
    """Access lists and renamings know the same places: what one finds, the other changes."""
    values = {
        "exchange": exchange,
        "source": "exchange",
        "destination": "exchange",
        "queue": "queue",
        "routing_key": "key",
        "arguments": Table(
            {"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": "key", "alternate-exchange": "exchange"}
        ),
    }
    made = kind(**{name: value for name, value in values.items() if name in kind.__struct_fields__})
    renamed = name_fields.renamed(made, lambda noun, name: f"new {name}" if name else name)
    before, after = _places(made), _places(renamed)
    for what, names in before.items():
        assert after[what] == [f"new {name}" if name else name for name in names], what
