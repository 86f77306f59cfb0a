"""Rules decide about every command of a peer, and what they send on can be encoded."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import SENDERS
from amqproxy.rules.engine.evaluator import RuleSet
from tests.amqp091 import strategies
from tests.rules.scene import GUEST, Shelf, from_client, rule

RULES = [
    'action = "rewrite"\nrouting_key.strip_prefix = "a"\nexchange.strip_suffix = "b"',
    'action = "rewrite"\nuser = "proxy"\npassword_env = "P"\nclient_properties.set = {a = "{user}"}',
    'action = "rewrite"\narguments.set = {a = 1}\narguments.at_most = {b = 3}\narguments.remove = ["c*"]',
    'action = "rewrite"\nfields.set = {durable = true, no_ack = true}\nfields.at_most = {prefetch_count = 5}',
    'action = "rewrite"\nheaders.set = {a = "{exchange}", b = "{headers.b}"}\nheaders.rename = {c = "d"}',
    'action = "rewrite"\nproperties.remove = ["user_id"]\nproperties.at_most = {priority = 3}\ntrace_context = true',
    'action = "rewrite"\nbody.replace = [{text = "a", with = "bb"}]',
    'action = "redact"\nheaders = ["a*"]\nproperties = ["*"]\narguments = ["*"]\njson = ["/a/*"]',
    'action = "mirror"\nexchange = "x"\nheaders.set = {a = 1}',
    'action = "log"\ntext = "{body} {headers} {json} {fields} {client.properties} {arguments} {properties.user_id}"',
    'action = "rewrite"\ntune = {channel_max = 5, heartbeat = 7}',
    'action = "redact"\nfields = ["exchange", "queue", "reply_text"]',
    'action = "tag"\ntags = ["a"]',
    'action = "refuse"\nmatch.exchange = "a*"\nwith = "return"',
]
RULE_SET = RuleSet([rule(text, Shelf(variables={"P": "x"}), name=f"rule {n}") for n, text in enumerate(RULES)])


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), strategies.methods, strategies.properties, st.binary(max_size=40))
def test_no_rule_of_these_ever_fails(data: st.DataObject, method: Method, properties: Properties, body: bytes) -> None:
    sender = data.draw(st.sampled_from(sorted(SENDERS[method.name])))
    context = from_client(method, properties, body, sender=sender)
    verdict = RULE_SET.evaluator(GUEST).evaluate(context)
    assert not any(counts.errors for counts in RULE_SET.counts().values()), verdict.logged
    if verdict.command is not None:
        assert verdict.command.encode(4096)
    if verdict.shown is not None:
        assert verdict.shown.encode(0)
    for mirrored in verdict.mirrored:
        assert mirrored.command.encode(0)
