"""Rules on AMQP 0-10: what each peer gets, for every action; and that what no rule is about leaves as it came."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import ExchangeDeclare, ExecutionResult
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import encode_method
from amqproxy.amqp010.results import QueueQueryResult
from amqproxy.peer import CLIENT, SERVER
from amqproxy.proxy.amqp010.interception.session_memory import CHANNEL_COST, SESSION_COST
from amqproxy.proxy.memory_budget import MemoryBudget, MemoryShare
from amqproxy.rules.verdict import Verdict
from tests.proxy.amqp010.interception.amqp010_stage import ATTACHING, OPENING, Amqp010Stage, transfer

PUBLISH = 'match.method = "basic.publish"\nmatch.exchange = "orders"\n'
REFUSE = f'action = "refuse"\n{PUBLISH}'
SUBSCRIBE = ">> 1 message.subscribe queue=a destination=d accept_mode=0 acquire_mode=0"
SUBSCRIBED = "=> 1 message.subscribe queue=a destination=d accept_mode=0 acquire_mode=0"
SENT = "=> 1 message.transfer destination=orders accept_mode=1 acquire_mode=0"
EXCEPTION = "<= 1 execution.exception error_code={}{} failing_class_code=4 failing_command_code=1 description={}"


def fault(text: str, match: str = PUBLISH) -> str:
    return f'action = "fault"\n{match}fault = {text}\n'


def delivery(**properties: object) -> bytes:
    return transfer(SERVER, destination="d", accept_mode=0, **properties)  # type: ignore[arg-type]


def closed(code: int, text: str, position: int | None = 0) -> list[str]:
    """What both peers get where a rule closes the session for a transfer."""
    at = "" if position is None else f" command_id={position}"
    return [
        "=> 1 session.detach name_=s",
        EXCEPTION.format(code, at, text),
        "<= 1 session.detach name_=s",
    ]


# --- what no rule is about


EXCHANGE = f"""
    >> 1 session.request-timeout timeout=10
    << 1 session.timeout timeout=10
    >> 1 queue.declare queue=q
    >> 1 exchange.bind queue=q exchange=amq.direct binding_key=k
    {SUBSCRIBE}
    >> 1 message.flow destination=d unit=0 value=100
    >> 1 execution.sync sync=true
    << 1 session.completed commands=0-4 timely_reply=true
    >> 1 session.known-completed commands=0-4
    >> 1 message.transfer destination=other accept_mode=1 acquire_mode=0 body=hello
    << 1 message.transfer destination=d accept_mode=0 acquire_mode=0 body=hello
    >> 1 message.accept transfers=0
    >> 1 session.completed commands=0
    >> 1 message.cancel destination=d
    >> 1 session.detach name_=s
    << 1 session.detached name_=s code=0
    >> connection.close reply_code=200
    << connection.close-ok
"""
RULES = (
    REFUSE,
    'action = "rewrite"\nmatch.queue = "none"\nqueue = "other"\n',
    'action = "limit"\nof = "messages"\nrate = 1000\n',
    'action = "rewrite"\nmatch.headers = {none = true}\nproperties.set = {priority = 9}\n',
    'action = "tag"\ntags = ["seen"]\n',
)


@pytest.mark.parametrize("by_byte", [False, True])
@pytest.mark.parametrize("rules", [(), RULES])
def test_what_no_rule_changes_leaves_as_it_came(rules: tuple[str, ...], by_byte: bool) -> None:
    stage = Amqp010Stage(*rules)
    plain = Amqp010Stage()
    stage.say(EXCHANGE, by_byte=by_byte)
    plain.say(EXCHANGE)
    assert stage.heard == plain.heard


PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        "routing_key": st.text(max_size=20),
        "priority": st.integers(0, 9),
        "ttl": st.integers(0, 2**64 - 1),
        "content_type": st.text(max_size=20),
        "correlation_id": st.binary(max_size=300),
    },
)


@given(PROPERTIES, st.none() | st.binary(max_size=10_000), st.integers(64, 9000))
def test_a_message_that_rules_have_looked_at_leaves_as_it_came(
    properties: dict[str, object], body: bytes | None, frame_max: int
) -> None:
    stage = Amqp010Stage('action = "refuse"\nmatch.body = "none"\n')
    sent = transfer(body=body, frame_max=min(frame_max, 4096), **properties)  # type: ignore[arg-type]
    before = stage.heard[SERVER]
    stage.feed(CLIENT, sent)
    assert stage.heard[SERVER] == before + sent


# --- refuse


def test_a_refused_publish_ends_its_session_and_no_other() -> None:
    stage = Amqp010Stage(REFUSE)
    stage.say(ATTACHING.replace(" 1 session", " 2 session").replace("name_=s", "name_=t"))
    what = "message.transfer to exchange 'orders' in vhost 'test'"
    refused = f"ACCESS_REFUSED - {what} refused for user 'guest' by rule 'r'"
    assert stage.feed(CLIENT, transfer(routing_key="k")) == closed(403, refused)
    assert stage.feed(CLIENT, transfer()) == []
    assert stage.say("<< 1 session.completed commands=0") == []
    assert stage.say(">> 1 session.detached name_=s code=0") == []
    assert stage.say(">> 1 session.attach name_=u") == []  # until the broker has let go of the channel
    assert stage.say("<< 1 session.detached name_=s code=0") == ["=> 1 session.attach name_=u"]
    assert stage.say("<< 1 session.attached name_=u") == ["<= 1 session.attached name_=u"]
    assert stage.feed(CLIENT, transfer(channel=2, destination="other")) == [
        "=> 2 message.transfer destination=other accept_mode=1 acquire_mode=0 body=hello"
    ]


def test_by_byte() -> None:
    whole, pieces = Amqp010Stage(REFUSE), Amqp010Stage(REFUSE)
    sent = transfer(destination="other") + transfer(body=b"x" * 5000)
    assert whole.feed(CLIENT, sent) == pieces.feed(CLIENT, sent, by_byte=True)


def test_a_client_that_detaches_at_the_same_time_is_answered() -> None:
    stage = Amqp010Stage(REFUSE)
    stage.feed(CLIENT, transfer())
    assert stage.say(">> 1 session.detach name_=s") == ["<= 1 session.detached name_=s code=0"]
    assert stage.say("<< 1 session.detached name_=s code=0") == []
    assert stage.say(ATTACHING)[0] == "=> 1 session.attach name_=s"


def test_nack_rejects_what_has_to_be_accepted() -> None:
    stage = Amqp010Stage(REFUSE + 'with = "nack"\n')
    assert stage.feed(CLIENT, transfer(accept_mode=0)) == [
        "=> 1 execution.sync",
        "<= 1 message.reject transfers=0 code=0 text=refused by a rule of the proxy",
    ]
    assert stage.say("<< 1 session.completed commands=0") == ["<= 1 session.completed commands=0"]
    assert stage.say(">> 1 session.completed commands=0") == []  # of our own: the broker does not know of it
    assert stage.feed(CLIENT, transfer(accept_mode=0, destination="x")) == [
        "=> 1 message.transfer destination=x accept_mode=0 acquire_mode=0 body=hello"
    ]
    assert stage.say("<< 1 message.accept transfers=1") == ["<= 1 message.accept transfers=1"]
    assert stage.say(">> 1 session.completed commands=0-1") == ["=> 1 session.completed commands=0"]
    assert stage.say("<< 1 session.known-completed commands=0") == ["<= 1 session.known-completed commands=0-1"]


def test_nack_closes_the_session_for_what_need_not_be_accepted() -> None:
    stage = Amqp010Stage(REFUSE + 'with = "nack"\n')
    assert stage.feed(CLIENT, transfer())[0] == "=> 1 session.detach name_=s"


def test_return_rejects_as_unroutable() -> None:
    stage = Amqp010Stage(REFUSE + 'with = "return"\n')
    assert stage.feed(CLIENT, transfer(accept_mode=0)) == [
        "=> 1 execution.sync",
        "<= 1 message.reject transfers=0 code=1 text=NO_ROUTE",
    ]


def test_a_refused_delivery_goes_back_to_its_queue() -> None:
    stage = Amqp010Stage('action = "refuse"\nmatch.method = "basic.deliver"\nwith = "requeue"\n')
    stage.say(SUBSCRIBE)
    assert stage.feed(SERVER, delivery()) == ["=> 1 message.release transfers=0", "<= 1 message.accept transfers="]
    assert stage.say(">> 1 session.completed commands=0") == ["=> 1 session.completed commands=0"]
    assert stage.say("<< 1 session.completed commands=0-1") == ["<= 1 session.completed commands=0"]
    assert stage.say(">> 1 message.cancel destination=d") == ["=> 1 message.cancel destination=d"]
    assert stage.say("<< 1 session.completed commands=0-2") == ["<= 1 session.completed commands=0-1"]


def test_a_session_that_may_not_be_attached() -> None:
    stage = Amqp010Stage('action = "refuse"\nmatch.method = "channel.open"\n', opening=OPENING)
    assert stage.say(">> 1 session.attach name_=s") == [
        "<= 1 session.attached name_=s",
        "<= 1 session.command-point command_id=0 command_offset=0",
        "<= 1 execution.exception error_code=403 failing_class_code=2 failing_command_code=1 description=ACCESS_REFUSED"
        " - session.attach in vhost 'test' refused for user 'guest' by rule 'r'",
        "<= 1 session.detach name_=s",
    ]
    assert stage.say(">> 1 session.detached name_=s code=0") == []
    assert stage.say(">> 2 session.attach name_=t")[0] == "<= 2 session.attached name_=t"


def test_a_connection_that_may_not_be_opened() -> None:
    rule, opening = 'action = "refuse"\nmatch.method = "connection.open"\n', OPENING.partition(">> connection.open ")[0]
    stage = Amqp010Stage(rule, opening=opening)
    assert stage.say(">> connection.open virtual_host=test") == [
        "=> connection.close reply_code=320 reply_text=closed by a rule of the proxy",
        "<= connection.close reply_code=320 reply_text=NOT_ALLOWED - connection.open of vhost 'test' refused for user"
        " 'guest' by rule 'r'",
    ]
    refusal = stage.interceptor.refusal
    assert refusal is not None
    assert int(refusal.code) == 530


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("queue.declare queue=orders", 'match.queue = "orders"'),
        ("queue.declare queue=q alternate_exchange=orders", 'match.exchange = "orders"'),
        ("queue.delete queue=orders", 'match.method = "queue.delete"'),
        ("queue.purge queue=orders", 'match.method = "queue.purge"'),
        ("exchange.declare exchange=orders type=direct", 'match.exchange = "orders"'),
        ("exchange.declare exchange=x type=direct alternate_exchange=orders", 'match.exchange = "orders"'),
        ("exchange.bind queue=q exchange=orders binding_key=k", 'match.routing_key = "k"'),
        ("exchange.unbind queue=q exchange=orders binding_key=k", 'match.method = "queue.unbind"'),
        ("message.subscribe queue=orders destination=d", 'match.queue = "orders"'),
        ("tx.select", 'match.method = "tx.select"'),
    ],
)
def test_a_rule_is_about_both_protocols(line: str, match: str) -> None:
    stage = Amqp010Stage(f'action = "refuse"\n{match}\n')
    heard = stage.say(f">> 1 {line}")
    assert [each.split(" error_code")[0] for each in heard] == [
        "=> 1 session.detach name_=s",
        "<= 1 execution.exception",
        "<= 1 session.detach name_=s",
    ]


def test_a_session_on_channel_0_is_none_of_the_connection() -> None:
    stage = Amqp010Stage(REFUSE, opening=OPENING + ATTACHING.replace(" 1 session", " 0 session"))
    assert [each.partition(" error_code")[0] for each in stage.feed(CLIENT, transfer(channel=0))] == [
        "=> session.detach name_=s",
        "<= execution.exception",
        "<= session.detach name_=s",
    ]


def test_commands_that_rules_do_not_know_are_refused() -> None:
    stage = Amqp010Stage(REFUSE)
    heard = stage.say(">> 1 file.publish exchange=orders")
    assert heard[1].startswith("<= 1 execution.exception error_code=540 ")


# --- rewrite


def test_rewrite() -> None:
    stage = Amqp010Stage(
        f'action = "rewrite"\n{PUBLISH}exchange = "new"\nrouting_key = "rk"\n'
        "headers.set = {a = 1}\nproperties.set = {priority = 5}\n"
    )
    changed = "=> 1 message.transfer destination=new accept_mode=1 acquire_mode=0 priority=5 routing_key=rk"
    headers = "application_headers={'a': 1}"
    assert stage.feed(CLIENT, transfer(routing_key="k")) == [f"{changed} {headers} body=hello"]
    assert stage.feed(CLIENT, transfer(body=None)) == [f"{changed} {headers}"]
    assert stage.feed(CLIENT, transfer(body=b"x" * 9000)) == [f"{changed} {headers} body={'x' * 40}"]
    [heard] = stage.feed(CLIENT, transfer(routing_key="k", content_length=5))
    assert heard == f"{changed} content_length=5 {headers} body=hello"


def test_a_body_that_is_rewritten_has_its_length() -> None:
    stage = Amqp010Stage(f'action = "rewrite"\n{PUBLISH}body.set = "much longer"\n')
    heard = stage.feed(CLIENT, transfer(content_length=5))
    assert heard == [f"{SENT} content_length=11 body=much longer"]


def test_what_the_protocol_cannot_express_is_refused() -> None:
    stage = Amqp010Stage(f'action = "rewrite"\n{PUBLISH}properties.set = {{priority = 200}}\n')
    text = "INTERNAL_ERROR - rules made what cannot be sent: a priority is 9 at most in AMQP 0-10"
    assert stage.feed(CLIENT, transfer()) == closed(541, text)
    assert stage.interceptor.take_effects().logged == [
        ("error", "refused what was made by rule 'r': a priority is 9 at most in AMQP 0-10")
    ]


def test_names_of_queues_and_subscriptions() -> None:
    stage = Amqp010Stage('action = "rewrite"\nmatch.queue = "a"\nqueue = "b"\nconsumer_tag = "tag"\n')
    assert stage.say(">> 1 queue.declare queue=a alternate_exchange=x") == [
        "=> 1 queue.declare queue=b alternate_exchange=x"
    ]
    assert stage.say(">> 1 queue.query queue=a") == ["=> 1 queue.query queue=b"]
    assert stage.say(SUBSCRIBE) == [SUBSCRIBED.replace("queue=a destination=d", "queue=b destination=tag")]
    assert stage.say(">> 1 message.flow destination=d unit=0 value=10") == [
        "=> 1 message.flow destination=tag unit=0 value=10"
    ]
    assert stage.feed(SERVER, transfer(SERVER, destination="tag", accept_mode=0, exchange="e"))[0].startswith(
        "<= 1 message.transfer destination=d "
    )
    assert stage.say(">> 1 message.cancel destination=d") == ["=> 1 message.cancel destination=tag"]


@pytest.mark.parametrize("name", ["virtual_host=/", 'virtual_host=""', "insist=true"])
def test_a_virtual_host_without_a_name_is_the_default_one(name: str) -> None:
    stage = Amqp010Stage(
        'action = "refuse"\nmatch.vhost = "/"\n',
        opening=OPENING.partition("<< connection.open-ok")[0].replace("virtual_host=test", name),
    )
    assert stage.opening[-2].startswith("=> connection.close reply_code=320")


def test_a_login_with_plain_in_secure_ok() -> None:
    response = ' response="\0guest\0guest"'
    asked = f"<< connection.secure challenge=x\n>> connection.secure-ok{response}\n<< connection.tune"
    opening = (
        OPENING.replace(response, "", 1).replace("<< connection.tune", asked, 1).partition("<< connection.open-ok")
    )
    stage = Amqp010Stage('action = "refuse"\nmatch.user = "guest"\n', opening=opening[0])
    assert stage.interceptor.client.user == "guest"
    assert "connection.close" in stage.opening[-1]


def test_a_login_by_scram() -> None:
    scram = OPENING.replace("PLAIN", "SCRAM-SHA-256").replace("\0guest\0guest", "n,,n=guest,r=1")
    stage = Amqp010Stage('action = "refuse"\nmatch.user = "guest"\n', opening=scram.partition("<< connection.tune")[0])
    assert stage.interceptor.client.user == "guest"
    assert "connection.close" in stage.opening[-1]


def test_a_login_and_a_virtual_host() -> None:
    stage = Amqp010Stage('action = "rewrite"\nuser = "other"\nvhost = "v"\n', opening=OPENING)
    assert "=> connection.start-ok mechanism=PLAIN response=\0other\0guest locale=en_US" in stage.opening
    assert "=> connection.open virtual_host=v" in stage.opening
    assert stage.interceptor.client.user == "guest"


def test_limits_of_a_connection() -> None:
    rule = 'action = "rewrite"\ntune = {channel_max = 8, frame_max = 4096}\n'
    opening = OPENING.replace("max_frame_size=4096 heartbeat_min", "max_frame_size=65535 heartbeat_min").replace(
        "channel_max=256 max_frame_size=4096 heartbeat=0", "heartbeat=0"
    )
    stage = Amqp010Stage(rule, opening=opening)
    assert "<= connection.tune channel_max=8 max_frame_size=4096 heartbeat_min=0 heartbeat_max=120" in stage.opening
    assert "=> connection.tune-ok channel_max=8 max_frame_size=4096 heartbeat=0" in stage.opening
    assert {leg.frame_max for leg in stage.legs.values()} == {4096}


# --- limit


def test_sizes() -> None:
    stage = Amqp010Stage('action = "limit"\nof = "message_size"\nmost = 3\n')
    assert stage.feed(CLIENT, transfer(body=b"abc")) == [f"{SENT} body=abc"]
    heard = stage.feed(CLIENT, transfer(body=b"abcd"))
    assert heard[1].partition(" failing")[0] == "<= 1 execution.exception error_code=406 command_id=1"


def test_a_size_is_believed_only_as_far_as_it_is_true() -> None:
    stage = Amqp010Stage('action = "limit"\nof = "message_size"\nmost = 3\n')
    sent = transfer(body=b"x" * 5000, content_length=2, frame_max=2000)
    with pytest.raises(ProtocolError, match="longer than its content-length"):
        stage.feed(CLIENT, sent)
    heard = [each.partition(" reply_text")[0] for each in stage.listen()]
    assert heard == ["=> connection.close reply_code=320", "<= connection.close reply_code=501"]


def test_rates() -> None:
    stage = Amqp010Stage('action = "limit"\nof = "messages"\nrate = 1\nburst = 1\n')
    assert stage.feed(CLIENT, transfer()) == [f"{SENT} body=hello"]
    assert stage.feed(CLIENT, transfer()) == []
    assert stage.wait(0.5) == []
    assert stage.wait(0.5) == [f"{SENT} body=hello"]


def test_sessions_are_counted_and_given_back() -> None:
    stage = Amqp010Stage('action = "limit"\nof = "channels"\nmost = 1\n')
    assert stage.say(">> 2 session.attach name_=t")[2].startswith("<= 2 execution.exception error_code=506 ")
    stage.say(">> 2 session.detached name_=t code=0\n>> 1 session.detach name_=s\n<< 1 session.detached name_=s code=0")
    assert stage.say(">> 1 session.attach name_=u") == ["=> 1 session.attach name_=u"]


def test_queues_are_given_back_once_their_deletion_is_completed() -> None:
    stage = Amqp010Stage('action = "limit"\nof = "queues"\nmost = 1\n')
    stage.say(">> 1 queue.declare queue=a\n>> 1 queue.delete queue=a")
    completed = "1 session.completed commands=0-1"
    assert stage.say(f"<< {completed}") == [f"<= {completed}"]
    assert stage.say(">> 1 queue.declare queue=b") == ["=> 1 queue.declare queue=b"]
    stage.say(">> 1 queue.delete queue=b")
    assert stage.say(">> 1 queue.declare queue=c")[1].startswith("<= 1 execution.exception error_code=506 ")


def test_queues_whose_deletion_is_not_completed_when_the_session_ends_still_count() -> None:
    stage = Amqp010Stage('action = "limit"\nof = "queues"\nmost = 1\n')
    stage.say(">> 1 queue.declare queue=a\n>> 1 queue.delete queue=a")
    stage.say("<< 1 execution.exception error_code=405 command_id=1\n<< 1 session.detached name_=s code=0")
    stage.say(">> 1 session.attach name_=u\n<< 1 session.attached name_=u")
    stage.say(">> 1 session.command-point command_id=0 command_offset=0")
    stage.say("<< 1 session.command-point command_id=0 command_offset=0")
    assert any("error_code=506" in each for each in stage.say(">> 1 queue.declare queue=b"))


def test_prefetch_is_credit() -> None:
    stage = Amqp010Stage('action = "limit"\nof = "prefetch"\nmost = 5\n')
    assert stage.say(SUBSCRIBE) == [SUBSCRIBED]
    assert stage.say(">> 1 message.flow destination=d unit=0 value=3") == [
        "=> 1 message.flow destination=d unit=0 value=3"
    ]
    assert stage.say(">> 1 message.flow destination=d unit=0 value=4294967295") == [
        "=> 1 message.flow destination=d unit=0 value=5"
    ]
    bytes_ = "1 message.flow destination=d unit=1 value=4294967295"
    assert stage.say(f">> {bytes_}") == [f"=> {bytes_}"]


def test_unacknowledged_messages() -> None:
    stage = Amqp010Stage('action = "limit"\nof = "unacked"\nmost = 1\nact = "refuse"\n')
    stage.say(SUBSCRIBE)
    assert stage.feed(SERVER, delivery())[0].startswith("<= 1 message.transfer destination=d")
    assert stage.feed(SERVER, delivery())[1].startswith("<= 1 execution.exception error_code=406")


# --- fault


def test_delay_keeps_the_order_of_a_session() -> None:
    stage = Amqp010Stage(fault('{kind = "delay", seconds = 2}'))
    assert stage.feed(CLIENT, transfer(body=b"x" * 5000)) == []
    assert stage.feed(CLIENT, transfer(destination="other")) == []
    assert stage.say(">> 1 session.flush completed=true") == []
    assert stage.wait(1) == []
    assert [each[:40] for each in stage.wait(1)] == [
        "=> 1 message.transfer destination=orders",
        "=> 1 message.transfer destination=other ",
        "=> 1 session.flush completed=true",
    ]


def test_what_is_delayed_goes_before_the_end_of_the_connection() -> None:
    stage = Amqp010Stage(fault('{kind = "delay", seconds = 2}'))
    stage.feed(CLIENT, transfer())
    assert stage.say(">> connection.close reply_code=200") == [
        f"{SENT} body=hello",
        "=> connection.close reply_code=200",
    ]


def test_drop_keeps_the_ids() -> None:
    stage = Amqp010Stage(fault('{kind = "drop"}'))
    assert stage.feed(CLIENT, transfer(sync=True)) == ["=> 1 execution.sync sync=true"]
    assert stage.say("<< 1 session.completed commands=0") == ["<= 1 session.completed commands=0"]


def test_drop_of_a_large_message_drops_all_of_it() -> None:
    stage = Amqp010Stage(fault('{kind = "drop"}'))
    assert stage.feed(CLIENT, transfer(body=b"x" * 9000)) == ["=> 1 execution.sync"]
    assert stage.feed(CLIENT, transfer(destination="other", body=b"x"))[0].startswith("=> 1 message.transfer")


def test_duplicates_have_ids_of_their_own() -> None:
    stage = Amqp010Stage(fault('{kind = "duplicate"}'))
    assert stage.feed(CLIENT, transfer(content_length=5)) == [f"{SENT} content_length=5 body=hello"] * 2
    assert stage.say("<< 1 session.completed commands=0-1") == ["<= 1 session.completed commands=0"]
    stage.feed(CLIENT, transfer(destination="y"))
    assert stage.say("<< 1 session.completed commands=0-2") == ["<= 1 session.completed commands=0-1"]
    assert stage.say(">> 1 session.known-completed commands=0-1") == ["=> 1 session.known-completed commands=0-2"]
    stage.say(">> 1 queue.query queue=q")
    assert stage.say("<< 1 execution.result command_id=3 value=queue.queue-query-result") == [
        "<= 1 execution.result command_id=2 value=QueueQueryResult(queue=None, alternate_exchange=None, durable=False,"
        " exclusive=False, auto_delete=False, arguments=None, message_count=None, subscriber_count=None)"
    ]


def test_a_session_whose_ids_differ_is_not_kept() -> None:
    stage = Amqp010Stage(fault('{kind = "duplicate"}'))
    stage.say(">> 1 session.request-timeout timeout=10\n<< 1 session.timeout timeout=10")
    assert stage.feed(CLIENT, transfer()) == [
        f"{SENT} body=hello",
        "=> 1 session.request-timeout timeout=0",
        f"{SENT} body=hello",
    ]
    assert stage.say("<< 1 session.timeout timeout=0") == []


def test_close() -> None:
    stage = Amqp010Stage(fault('{kind = "close", code = 406}'))
    assert stage.feed(CLIENT, transfer()) == closed(406, "PRECONDITION_FAILED - fault injected by the proxy")
    stage = Amqp010Stage(fault('{kind = "close", code = 320, scope = "connection"}'))
    assert stage.feed(CLIENT, transfer()) == [
        "=> connection.close reply_code=320 reply_text=closed by a rule of the proxy",
        "<= connection.close reply_code=320 reply_text=CONNECTION_FORCED - fault injected by the proxy",
    ]


def test_corrupt() -> None:
    stage = Amqp010Stage(fault('{kind = "corrupt", place = 3, mask = 1}'))
    sent = transfer()
    stage.interceptor.take(CLIENT, stage.legs[CLIENT].readers[CLIENT].feed(sent), 0)
    assert bytes(stage.interceptor.take_output(SERVER)) == sent[:3] + bytes([sent[3] ^ 1]) + sent[4:]


def test_reordering_is_refused() -> None:
    stage = Amqp010Stage(fault('{kind = "reorder"}', 'match.method = "basic.deliver"\n'))
    stage.say(SUBSCRIBE)
    heard = stage.feed(SERVER, delivery())
    assert heard[1].endswith("rules made what cannot be sent: commands of AMQP 0-10 cannot be reordered")


def test_cancel() -> None:
    stage = Amqp010Stage(fault('{kind = "cancel"}', 'match.method = "basic.deliver"\n'))
    stage.say(SUBSCRIBE)
    heard = stage.feed(SERVER, delivery())
    assert [each.partition(" ")[2].partition(" a")[0] for each in heard] == [
        "1 message.cancel destination=d",
        "1 message.transfer destination=d",
    ]


# --- hold, log, tag


def test_hold_and_release() -> None:
    stage = Amqp010Stage(f'action = "hold"\n{PUBLISH}timeout = 60\n')
    assert stage.feed(CLIENT, transfer()) == []
    [number] = stage.interceptor.take_effects().held
    stage.interceptor.release(number, None, stage.now)
    assert stage.listen() == [f"{SENT} body=hello"]
    stage.feed(CLIENT, transfer())
    [number] = stage.interceptor.waiting
    stage.interceptor.release(number, Verdict(command=None), stage.now)
    assert stage.listen() == ["=> 1 execution.sync"]


def test_log_and_tag() -> None:
    rule = 'action = "log"\nmatch.exchange = "orders"\ntext = "{exchange} {routing_key} {size}"\n'
    stage = Amqp010Stage(rule, is_tapped=True)
    stage.feed(CLIENT, transfer(routing_key="k"))
    assert [text for _, text in stage.interceptor.take_effects().logged] == ["orders k 5"]
    notes = [note.rules for note, _ in stage.interceptor.take_passed(CLIENT)]
    assert notes[-1] == ("r",)


def test_taps_see_what_came_and_what_went_on() -> None:
    stage = Amqp010Stage(f'action = "rewrite"\n{PUBLISH}routing_key = "new"\n', is_tapped=True)
    stage.interceptor.take_passed(CLIENT)
    stage.feed(CLIENT, transfer(routing_key="old"))
    passed = stage.interceptor.take_passed(CLIENT)
    assert [note.leg for note, _ in passed] == ["client", "upstream"]
    assert [chunk[1].header.delivery.routing_key for _, chunk in passed] == ["old", "new"]


def test_redacted() -> None:
    stage = Amqp010Stage(f'action = "redact"\n{PUBLISH}body = true\n', is_tapped=True)
    stage.interceptor.take_passed(CLIENT)
    assert stage.feed(CLIENT, transfer(body=b"secret")) == [f"{SENT} body=secret"]
    shown = b"".join(frame.raw for _, chunk in stage.interceptor.take_passed(CLIENT) for frame in chunk)
    assert shown
    assert b"secret" not in shown


# --- what peers do wrong, and bounds


def test_a_command_that_cannot_be_read_ends_its_session() -> None:
    stage = Amqp010Stage(REFUSE)
    sent = bytearray(transfer())
    sent[14] = 7  # in its session header
    assert stage.feed(CLIENT, bytes(sent))[1].startswith("<= 1 execution.exception error_code=503")


@pytest.mark.parametrize("is_broker_first", [False, True])
def test_the_answer_to_our_detach_is_not_for_the_broker(is_broker_first: bool) -> None:
    stage = Amqp010Stage(REFUSE)
    stage.feed(CLIENT, transfer())
    assert stage.say(">> 1 session.detach name_=s") == ["<= 1 session.detached name_=s code=0"]  # both at once
    answers = [">> 1 session.detached name_=s code=0", "<< 1 session.detached name_=s code=0"]
    for answer in reversed(answers) if is_broker_first else answers:
        assert stage.say(answer) == []
    heard = stage.say(ATTACHING)
    assert heard[0] == "=> 1 session.attach name_=s"
    assert stage.say("<< 1 session.detach name_=s") == ["<= 1 session.detach name_=s"]
    assert stage.say(">> 1 session.detached name_=s code=0") == ["=> 1 session.detached name_=s code=0"]


def test_a_client_that_does_not_answer_our_detach() -> None:
    stage = Amqp010Stage(REFUSE)
    stage.feed(CLIENT, transfer())
    stage.say(">> 1 session.detach name_=s\n<< 1 session.detached name_=s code=0")
    assert stage.say(ATTACHING)[0] == "=> 1 session.attach name_=s"
    stage.say("<< 1 session.detach name_=s")
    assert stage.say(">> 1 session.detached name_=s code=0") == ["=> 1 session.detached name_=s code=0"]


def test_a_name_that_rules_cannot_read_ends_its_session() -> None:
    stage = Amqp010Stage('action = "refuse"\nmatch.exchange = "none"\n')
    heard = stage.feed(CLIENT, Assembly(1, ExchangeDeclare("a\udcff")).encode())
    assert heard[0] == "=> 1 session.detach name_=s"
    assert heard[1].startswith("<= 1 execution.exception error_code=531 command_id=0 ")
    assert "not UTF-8" in heard[1]
    assert heard[2] == "<= 1 session.detach name_=s"


AT_REST = SESSION_COST + CHANNEL_COST + 2
"""What a session with a name of one byte counts for."""


def test_more_than_may_be_kept() -> None:
    stage = Amqp010Stage(
        'action = "refuse"\nmatch.body = "none"\n', share=MemoryShare(MemoryBudget(1 << 20, share_limit=AT_REST + 1000))
    )
    heard = stage.feed(CLIENT, transfer(body=b"x" * 5000))
    assert heard[1].partition(" failing")[0] == "<= 1 execution.exception error_code=406 command_id=0"
    assert stage.interceptor.share.used == AT_REST


def test_a_frame_that_may_not_come_closes_the_connection() -> None:
    stage = Amqp010Stage(REFUSE)
    with pytest.raises(ProtocolError):
        stage.say(">> connection.tune-ok channel_max=1")
    assert [each.partition(" reply_text")[0] for each in stage.listen()] == [
        "=> connection.close reply_code=320",
        "<= connection.close reply_code=501",
    ]


@given(st.lists(st.tuples(st.booleans(), st.binary(min_size=1, max_size=60)), max_size=20))
def test_whatever_comes(pieces: list[tuple[bool, bytes]]) -> None:
    """Nothing but a `ProtocolError` is raised for any bytes, and both legs stay readable."""
    stage = Amqp010Stage(*RULES, fault('{kind = "duplicate"}'))
    stage.say(SUBSCRIBE)
    for is_client, noise in pieces:
        sender = CLIENT if is_client else SERVER
        sent = bytearray(transfer(sender, destination="d" if sender is SERVER else "orders", accept_mode=0))
        sent[14 + noise[0] % (len(sent) - 14)] ^= noise[-1]
        reader = stage.legs[sender].readers[sender]
        try:
            frames = reader.feed(bytes(sent))
            stage.interceptor.take(sender, frames, stage.now)
            if reader.error is not None:
                return
        except ProtocolError:
            return
        stage.listen()


def test_the_body_of_what_passes_is_not_kept() -> None:
    share = MemoryShare(MemoryBudget(1 << 20, share_limit=AT_REST + 10_000))
    stage = Amqp010Stage(share=share)
    sent = transfer(body=b"x" * 200_000)
    heard = []
    for start in range(0, len(sent), 10_000):
        heard += stage.feed(CLIENT, sent[start : start + 10_000])
        assert share.used < AT_REST + 2000
    assert len(heard) == 1
    assert share.used == AT_REST


def test_parts_of_controls_are_not_kept_without_bound() -> None:
    stage = Amqp010Stage(share=MemoryShare(MemoryBudget(1 << 20, share_limit=4 * AT_REST + 10_000)))
    begin = bytes([0x0E, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0]) + b"\x02\x0d" + bytes(4096 - 14)
    for number in (2, 3):
        assert stage.feed(CLIENT, begin[:7] + bytes([number]) + begin[8:]) == []
    with pytest.raises(ProtocolError, match="no memory"):
        stage.feed(CLIENT, begin[:7] + b"\x04" + begin[8:])
    assert "connection.close" in stage.listen()[0]


def test_the_rest_of_a_command_is_nothing_without_its_begin() -> None:
    stage = Amqp010Stage(REFUSE, opening=OPENING)
    assert stage.feed(CLIENT, transfer(body=b"x" * 9000)) == []  # no session is attached: there is nothing to close


BEGIN = transfer()[: int.from_bytes(transfer()[2:4])]
"""The first frame of a message, which rules have to wait for more of."""


def test_controls_behind_a_command_that_never_ends_are_not_kept_without_bound() -> None:
    stage = Amqp010Stage(REFUSE, share=MemoryShare(MemoryBudget(1 << 20, share_limit=AT_REST + 10_000)))
    stage.feed(CLIENT, BEGIN)
    with pytest.raises(ProtocolError, match="no memory"):
        stage.say("\n".join([">> 1 connection.heartbeat"] * 100))
    assert "connection.close" in stage.listen()[0]


def test_controls_behind_a_command_go_on_after_it_and_are_kept_no_longer() -> None:
    stage = Amqp010Stage(REFUSE)
    sent = transfer(destination="other2")
    stage.feed(CLIENT, sent[: len(BEGIN)])
    assert stage.say(">> 1 connection.heartbeat") == []
    assert [each.split()[2] for each in stage.feed(CLIENT, sent[len(BEGIN) :])] == [
        "message.transfer",
        "connection.heartbeat",
    ]
    assert stage.interceptor.share.used == AT_REST


def test_a_detach_cuts_a_command_short_that_rules_wait_for() -> None:
    stage = Amqp010Stage(REFUSE)
    stage.feed(CLIENT, BEGIN)
    assert stage.say(">> 1 session.detach name_=s") == ["=> 1 session.detach name_=s"]
    assert stage.say("<< 1 session.detached name_=s code=0") == ["<= 1 session.detached name_=s code=0"]
    assert stage.interceptor.share.used == CHANNEL_COST
    stage.say(ATTACHING)
    assert stage.feed(CLIENT, transfer(destination="other"))[0].startswith("=> 1 message.transfer destination=other")


def test_a_close_cuts_a_command_short_that_rules_wait_for_on_channel_0() -> None:
    stage = Amqp010Stage(REFUSE, opening=OPENING + ATTACHING.replace(" 1 session", " session"))
    stage.feed(CLIENT, BEGIN[:7] + b"\0" + BEGIN[8:])
    assert stage.say(">> connection.close reply_code=200") == ["=> connection.close reply_code=200"]


def test_answers_are_read_after_an_error_behind_a_close_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Amqp010Stage(REFUSE)
    monkeypatch.setattr("amqproxy.proxy.interception.interceptor.MAX_HELD", 0)
    stage.interceptor.pause_channel(1, stage.now)
    stage.say(">> 1 execution.sync" + "\n>> 1 execution.sync" * 200)
    assert not any("connection.close" in each for each in stage.say(">> connection.close reply_code=200"))
    assert stage.interceptor.is_full(CLIENT)
    with pytest.raises(ProtocolError):
        stage.say("<< connection.open-ok")
    assert [each.partition(" reply")[0] for each in stage.listen()] == ["=> connection.close"], "the client has closed"


def test_what_waits_for_the_broker_to_detach_is_bounded() -> None:
    stage = Amqp010Stage(REFUSE, share=MemoryShare(MemoryBudget(1 << 20, share_limit=AT_REST + 10_000)))
    stage.feed(CLIENT, transfer())
    stage.say(">> 1 session.detached name_=s code=0")
    assert stage.say(ATTACHING.partition("<<")[0]) == []
    assert not stage.interceptor.is_full(CLIENT)
    stage.say(">> 1 execution.sync" + "\n>> 1 execution.sync" * 40)
    assert stage.interceptor.is_full(CLIENT), "nothing more is read from the client"
    assert not stage.interceptor.is_full(SERVER), "but its detached is awaited"
    assert stage.say("<< 1 session.detached name_=s code=0")[0] == "=> 1 session.attach name_=s"
    assert not stage.interceptor.is_full(CLIENT)
    stage.wait(0)
    assert stage.interceptor.share.used == AT_REST


def test_sessions_count_for_the_share_and_one_too_many_ends_the_connection() -> None:
    stage = Amqp010Stage(REFUSE, share=MemoryShare(MemoryBudget(1 << 20, share_limit=3 * AT_REST)))
    for number in (2, 3):
        stage.say(ATTACHING.replace(" 1 ", f" {number} "))
    assert stage.interceptor.share.used == 3 * AT_REST
    stage.say(">> 3 session.detach name_=s\n<< 3 session.detached name_=s code=0")
    assert stage.interceptor.share.used == 2 * AT_REST + CHANNEL_COST
    stage.say(ATTACHING.replace(" 1 ", " 3 "))
    assert stage.interceptor.share.used == 3 * AT_REST
    with pytest.raises(ProtocolError, match="no memory now for another channel"):
        stage.say(">> 4 session.attach name_=s")
    text = "resource-limit-exceeded: there is no memory now for another channel"
    assert stage.listen() == [
        f"=> connection.close reply_code=320 reply_text=the client broke the protocol: {text}",
        f"<= connection.close reply_code=320 reply_text={text}",
    ]


def test_the_name_of_a_session_counts_twice() -> None:
    stage = Amqp010Stage(REFUSE)
    used = stage.interceptor.share.used
    stage.say(f">> 2 session.attach name_={'n' * 1000}")
    assert stage.interceptor.share.used == used + SESSION_COST + CHANNEL_COST + 2000


@pytest.mark.parametrize(
    ("destination", "key", "is_refused"),
    [
        ("", "secret", True),
        ("", "public", False),
        ("secret", "any", True),
        ("no-exchange", "secret", True),
        ("no-exchange", "public", False),
        ("amq.direct", "secret", False),
    ],
)
@pytest.mark.parametrize("match", ['queue = "secret"', 'exchange = ""\nmatch.routing_key = "secret"'])
def test_a_rule_about_a_queue_holds_where_the_destination_may_be_none(
    match: str, destination: str, key: str, is_refused: bool
) -> None:
    """Broker-J takes a destination that is no exchange for a queue, or has the default exchange route the message."""
    stage = Amqp010Stage(f'action = "refuse"\nmatch.method = "basic.publish"\nmatch.{match}\n')
    heard = stage.feed(CLIENT, transfer(destination=destination, routing_key=key))
    assert ("execution.exception" in " ".join(heard)) is is_refused


TENANT = 'action = "rewrite"\nqueue.prefix = "{user}."\nexchange.prefix = "{user}."\n'


@pytest.mark.parametrize(
    ("destination", "key", "heard"),
    [
        ("", "q", "=> 1 message.transfer destination= accept_mode=1 acquire_mode=0 routing_key=guest.q body=hello"),
        ("no-exchange", "other.q", "error_code=403"),
        ("no-exchange", "", "=> 1 message.transfer destination=guest.no-exchange"),
        ("amq.direct", "other.q", "=> 1 message.transfer destination=amq.direct"),
    ],
)
def test_a_tenant_reaches_no_queue_by_a_destination_that_may_be_none(destination: str, key: str, heard: str) -> None:
    stage = Amqp010Stage(TENANT)
    assert heard in " ".join(stage.feed(CLIENT, transfer(destination=destination, routing_key=key)))


def test_a_tenant_reaches_no_queue_by_its_name_as_a_destination() -> None:
    stage = Amqp010Stage('action = "rewrite"\nqueue.prefix = "{user}."\n')
    assert "error_code=403" in " ".join(stage.feed(CLIENT, transfer(destination="other.q", routing_key="")))


def test_a_tenant_transfers_to_exchanges_that_it_has_shown() -> None:
    stage = Amqp010Stage(TENANT)
    assert stage.say(">> 1 exchange.query name_=e") == ["=> 1 exchange.query name_=guest.e"]
    stage.say("<< 1 execution.result command_id=0 value=exchange.exchange-query-result")
    heard = stage.feed(CLIENT, transfer(destination="e", routing_key="k"))
    assert heard[0].startswith("=> 1 message.transfer destination=guest.e ")
    assert " routing_key=k " in heard[0]


@pytest.mark.parametrize("rules", [TENANT, 'action = "rewrite"\nexchange.prefix = "{user}."\n'])
def test_a_tenant_is_told_its_own_name_of_an_alternate_exchange(rules: str) -> None:
    stage = Amqp010Stage(rules)
    stage.say(">> 1 queue.declare queue=q alternate_exchange=x\n>> 1 queue.query queue=q")
    result = QueueQueryResult("guest.q" if rules == TENANT else "q", "guest.x", message_count=1, subscriber_count=0)
    (heard,) = stage.feed(SERVER, encode_method(1, ExecutionResult(1, result)))
    assert "QueueQueryResult(queue='q', alternate_exchange='x', " in heard


def test_a_tenant_asks_about_bindings_of_its_own() -> None:
    stage = Amqp010Stage(TENANT)
    assert stage.say(">> 1 exchange.bound exchange=e queue=q binding_key=k") == [
        "=> 1 exchange.bound exchange=guest.e queue=guest.q binding_key=k"
    ]


@pytest.mark.parametrize(
    "shown",
    [
        ">> 1 exchange.declare exchange=e type=direct",
        ">> 1 exchange.query name_=e\n<< 1 execution.result command_id=0 value=exchange.exchange-query-result",
    ],
)
def test_a_destination_that_is_known_as_an_exchange_is_one(shown: str) -> None:
    stage = Amqp010Stage('action = "refuse"\nmatch.method = "basic.publish"\nmatch.exchange = ""\n')
    stage.say(shown)
    assert "execution.exception" not in " ".join(stage.feed(CLIENT, transfer(destination="e", routing_key="q")))
    stage.say(">> 1 exchange.delete exchange=e")
    assert "execution.exception" in " ".join(stage.feed(CLIENT, transfer(destination="e", routing_key="q")))


@pytest.mark.parametrize(
    ("shown", "then"),
    [
        (">> 1 exchange.declare exchange=e passive=true", ""),
        (
            ">> 1 exchange.query name_=d",
            ">> 1 exchange.query name_=e\n<< 1 execution.result command_id=0 value=exchange.exchange-query-result",
        ),
    ],
)
def test_what_a_session_showed_that_has_ended_holds_of_no_other(shown: str, then: str) -> None:
    """A client may send all of it before the broker has answered anything."""
    stage = Amqp010Stage('action = "refuse"\nmatch.method = "basic.publish"\nmatch.exchange = ""\n')
    stage.say(shown)
    stage.say(">> 1 session.detach name_=s")
    stage.say(">> 1 session.attach name_=t\n>> 1 session.command-point command_id=0 command_offset=0")
    if then:
        stage.say(then)
    assert "execution.exception" in " ".join(stage.feed(CLIENT, transfer(destination="e", routing_key="q")))


def test_properties_of_any_length_are_seen_and_pass_as_they_came() -> None:
    long, other = b"x" * 300, b"x" * 299 + b"y"
    stage = Amqp010Stage(f"""action = "refuse"\nmatch.properties.correlation_id = "{long.decode()}"\n""")
    sent = transfer(correlation_id=other)
    stage.heard[SERVER] = b""
    stage.feed(CLIENT, sent)
    assert stage.heard[SERVER] == sent
    assert "execution.exception" in " ".join(stage.feed(CLIENT, transfer(correlation_id=long)))


def test_long_properties_are_kept_where_others_are_changed() -> None:
    stage = Amqp010Stage(
        'action = "rewrite"\nmatch.method = "basic.publish"\nproperties.set = {content_type = "text/plain"}'
    )
    heard = stage.feed(CLIENT, transfer(correlation_id=b"x" * 300))
    assert "correlation_id=" + "x" * 300 in heard[0]
    assert "content_type=text/plain" in heard[0]
