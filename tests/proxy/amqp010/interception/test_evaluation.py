"""What rules are asked, and what they know of a session."""

from __future__ import annotations

from amqproxy.amqp010.methods import BY_NAME
from amqproxy.peer import CLIENT, SERVER
from amqproxy.proxy.amqp010.interception.evaluation import Amqp010Evaluation
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.rule import Rule
from tests.proxy.amqp010.interception.amqp010_stage import Amqp010Stage, transfer
from tests.rules.scene import rule


def evaluation(*rules: Rule) -> Amqp010Evaluation:
    stage = Amqp010Stage()
    found = RuleSet(rules).evaluator(stage.client)
    return Amqp010Evaluation(
        found, stage.client, stage.legs[CLIENT], random=lambda: 0.0, time=lambda: 0.0, body_limit=100
    )


def test_only_what_a_rule_may_be_about_is_wanted() -> None:
    found = evaluation(rule('action = "refuse"\nmatch.queue = "q"'))
    wanted = {name for name, cls in BY_NAME.items() if found.wants(CLIENT, cls.index)}
    assert wanted == {
        "exchange.bind",
        "exchange.unbind",
        "message.subscribe",
        "message.transfer",
        "queue.declare",
        "queue.delete",
        "queue.purge",
        "queue.query",
    }
    assert not found.wants(SERVER, BY_NAME["message.transfer"].index)


def test_heartbeats() -> None:
    heartbeat = BY_NAME["connection.heartbeat"].index
    assert not evaluation().wants(CLIENT, heartbeat)
    dropped = rule('action = "fault"\nmatch.method = "heartbeat"\nfault = {kind = "drop"}')
    assert evaluation(dropped).wants(CLIENT, heartbeat)


def test_what_is_known_of_a_session() -> None:
    text = "{channel.number} {channel.is_confirming} {channel.is_transactional} {channel.consumers} {channel.unacked}"
    stage = Amqp010Stage(
        f'action = "log"\ntext = "{text}"\nmatch.method = ["basic.publish", "basic.deliver"]\n'
        'when = "channel.unacked >= 0"\n'
    )
    stage.feed(CLIENT, transfer())
    stage.say(">> 1 message.subscribe queue=q destination=d accept_mode=0 acquire_mode=0\n>> 1 tx.select")
    stage.feed(SERVER, transfer(SERVER, destination="d", accept_mode=0))
    stage.feed(CLIENT, transfer(accept_mode=0))
    assert [line for _, line in stage.interceptor.take_effects().logged] == [
        "1 false false 0 0",
        "1 true true 1 0",
        "1 true true 1 1",
    ]
