"""Verdicts carried out, as transcripts: what both peers say, and what each of them hears."""

from itertools import groupby

import pytest
from msgspec.structs import replace

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import ResourceError, Scope
from amqproxy.amqp091.frame import BODY, METHOD, every_frame
from amqproxy.amqp091.methods import (
    BasicCancel,
    BasicDeliver,
    BasicPublish,
    BasicQos,
    ChannelClose,
    ChannelCloseOk,
    ConnectionBlocked,
    ConnectionUnblocked,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import CLIENT, SERVER, ConnectionState
from amqproxy.amqp091.wire import Table
from amqproxy.proxy.memory_budget import MemoryBudget
from amqproxy.rules.verdict import Answer, Close, HoldAction, Insertion, Stage, Verdict
from tests.proxy.interceptor_transcript import PRELUDE, ScriptedEvaluator, Water, opened, play, read
from tests.transcripts.lines import parse


def passes(context):
    return Verdict(command=context.command)


def drop(answer):
    def decide(context):
        bad = "bad" in (
            getattr(context.command.method, "routing_key", ""),
            getattr(context.command.method, "queue", ""),
        )
        return Verdict(command=None, answer=answer) if bad else Verdict(command=context.command)

    return decide


def refuse(context):
    method = context.command.method
    if "bad" in (getattr(method, "routing_key", ""), getattr(method, "queue", ""), getattr(method, "exchange", "")):
        return Verdict(command=None, close=Close(Scope.CHANNEL, 403, "ACCESS_REFUSED - no"))
    return Verdict(command=context.command)


def said(key, arrow=">>", channel=1):
    return f"""
    {arrow} {channel} basic.publish routing_key={key}
    {arrow} {channel} header 3
    {arrow} {channel} body abc
    """


@pytest.mark.parametrize("pauses", [("", "-- 2"), ("-- 2", "")])
def test_nothing_follows_the_end_of_a_connection(pauses):
    play(
        f"""
        << 1 basic.deliver consumer_tag=t delivery_tag=1
        << 1 header 3
        << 1 body abc
        >> connection.close
        => connection.close
        {pauses[0]}
        << connection.close-ok
        <= connection.close-ok
        {pauses[1]}
        """,
        lambda context: Verdict(command=context.command, delay=1.0),
        "basic.deliver",
        stage=Stage.BODY,
    )


def test_what_passes_is_what_came():
    play(said("good") + said("good", "=>"), passes, "basic.publish")
    play(said("good") + said("good", "=>"), passes, "basic.publish", stage=Stage.METHOD)
    play(said("good") + said("good", "=>"), passes, "basic.publish", stage=Stage.HEADER)


def test_what_is_unacknowledged_is_counted_when_a_delivery_is_evaluated_and_not_when_it_begins():
    unacked = []

    def decide(context):
        if context.sender is CLIENT:
            return Verdict(command=context.command, delay=1.0)
        unacked.append(context.channel.unacked)
        return Verdict(command=context.command)

    evaluator = ScriptedEvaluator(decide, ["basic.deliver", "basic.ack"])
    evaluator.reads_unacked = True
    water = opened(evaluator)
    for line in (
        ">> 1 basic.consume queue=q consumer_tag=t",
        "<< 1 basic.consume-ok consumer_tag=t",
        "<< 1 basic.deliver consumer_tag=t delivery_tag=1",
        "<< 1 header 0",
        ">> 1 basic.ack delivery_tag=1",
        "<< 1 basic.deliver consumer_tag=t delivery_tag=2",
    ):
        water.say(*read(line))
    water.wait(1.0)  # now the acknowledgement goes on
    water.say(*read("<< 1 header 0"))
    assert unacked == [0, 0]


# --- publishes that go no further


def test_a_publish_dropped_in_silence():
    play(said("bad") + said("good") + said("good", "=>"), drop(Answer.NOTHING), "basic.publish", stage=Stage.METHOD)


CONFIRMS = """
    >> 1 confirm.select
    => 1 confirm.select
    << 1 confirm.select-ok
    <= 1 confirm.select-ok
"""


def test_a_publish_that_is_nacked_takes_a_number_of_the_clients():
    play(
        CONFIRMS
        + said("good")
        + said("good", "=>")
        + said("bad")
        + "<= 1 basic.nack delivery_tag=2\n"
        + said("good")
        + said("good", "=>")
        + """
        << 1 basic.ack delivery_tag=2 multiple=True
        <= 1 basic.ack delivery_tag=3 multiple=True
        """,
        drop(Answer.NACK),
        "basic.publish",
        stage=Stage.METHOD,
    )


def test_a_publish_that_is_confirmed_though_it_is_dropped():
    play(
        CONFIRMS
        + said("bad")
        + "<= 1 basic.ack delivery_tag=1\n"
        + said("good")
        + said("good", "=>")
        + """
        << 1 basic.ack delivery_tag=1
        <= 1 basic.ack delivery_tag=2
        """,
        drop(Answer.ACK),
        "basic.publish",
    )


def test_a_publish_that_is_returned_is_confirmed_then():
    play(
        CONFIRMS
        + said("bad")
        + """
        <= 1 basic.return reply_code=312 reply_text=NO_ROUTE routing_key=bad
        <= 1 header 3
        <= 1 body abc
        <= 1 basic.ack delivery_tag=1
        """,
        drop(Answer.RETURN),
        "basic.publish",
        stage=Stage.METHOD,
    )


def test_a_publish_dropped_without_a_confirm_is_not_confirmed_by_a_later_one():
    play(
        CONFIRMS
        + said("good")
        + said("good", "=>")
        + said("bad")
        + said("good")
        + said("good", "=>")
        + """
        << 1 basic.ack delivery_tag=2 multiple=True
        <= 1 basic.ack delivery_tag=1 multiple=True
        <= 1 basic.ack delivery_tag=3
        """,
        drop(Answer.NOTHING),
        "basic.publish",
    )


def test_publishes_before_confirm_select_have_no_number():
    play(
        said("good") + said("good", "=>") + CONFIRMS + said("bad") + "<= 1 basic.nack delivery_tag=1\n",
        drop(Answer.NACK),
        "basic.publish",
    )


def test_a_nack_where_nothing_is_confirmed_closes_the_channel():
    play(
        said("bad")
        + """
        """
        + PUBLISH_CLOSED.replace("- no", "- refused by a rule of the proxy"),
        drop(Answer.NACK),
        "basic.publish",
    )


def test_a_confirm_kept_back_is_not_made_good_by_a_later_one():
    def decide(context):
        return Verdict(command=None if context.command.method.delivery_tag == 1 else context.command)

    play(
        CONFIRMS
        + said("good")
        + said("good", "=>")
        + said("good")
        + said("good", "=>")
        + """
        << 1 basic.ack delivery_tag=1
        << 1 basic.ack delivery_tag=2 multiple=True
        <= 1 basic.ack delivery_tag=2
        """,
        decide,
        "basic.ack",
        drops_confirms=True,
    )


def _drops_from_reload_on(transcript, *methods):
    """An interceptor whose rules drop confirms of the tags in the set from a reload on, which is after `transcript`."""
    dropped: set[int] = set()

    def decide(context):
        method = context.command.method
        if context.sender is SERVER:
            return Verdict(command=None if method.delivery_tag in dropped else context.command)
        is_bad = method.routing_key == "bad"
        return Verdict(command=None, answer=Answer.NACK) if is_bad else Verdict(command=context.command)

    evaluator = ScriptedEvaluator(decide, ["basic.ack", "basic.nack", *methods])
    water = opened(evaluator)
    for peer, lines in groupby(parse(transcript), key=lambda line: line.peer):
        water.say(peer, b"".join(line.data for line in lines))
    evaluator.drops_confirms = True
    water.interceptor.ask_for_frames()
    return water, dropped


def _say(water, transcript):
    """What the client hears of each line."""
    return [water.say(line.peer, line.data)[CLIENT] for line in parse(transcript)]


def _heard(*lines):
    return [b"".join(read(f"<= 1 {each}")[1] for each in line.split("; ") if each) for line in lines]


ASKS_FOR_CONFIRMS = ">> 1 confirm.select\n<< 1 confirm.select-ok\n"


@pytest.mark.parametrize("confirm", ["basic.ack", "basic.nack"])
def test_a_publish_from_before_confirms_are_dropped_is_not_confirmed_twice(confirm):
    """Which of these are confirmed is unknown, so only a confirm of all before may stand for a dropped one."""
    water, dropped = _drops_from_reload_on(
        ASKS_FOR_CONFIRMS + said("a") + said("a") + said("bad") + said("a"), "basic.publish"
    )
    dropped.add(1)
    assert _say(
        water,
        f"""
        << 1 {confirm} delivery_tag=2
        << 1 {confirm} delivery_tag=1 multiple=true
        << 1 {confirm} delivery_tag=3 multiple=true
        """,
    ) == _heard(f"{confirm} delivery_tag=2", "", f"{confirm} delivery_tag=4 multiple=true")


def test_a_publish_from_before_confirms_are_dropped_is_confirmed_with_the_next():
    water, dropped = _drops_from_reload_on(ASKS_FOR_CONFIRMS + said("a") * 3 + said("bad"), "basic.publish")
    dropped.add(2)
    _say(water, said("a"))
    assert _say(
        water,
        """
        << 1 basic.ack delivery_tag=2
        << 1 basic.ack delivery_tag=4 multiple=true
        """,
    ) == _heard("", "basic.ack delivery_tag=5 multiple=true")


def test_a_confirm_sent_after_a_later_one_can_be_dropped():
    water, dropped = _drops_from_reload_on(ASKS_FOR_CONFIRMS + said("a") * 3)
    dropped.add(1)
    assert _say(
        water,
        f"""
        << 1 basic.ack delivery_tag=3
        << 1 basic.ack delivery_tag=1
        {said("a")}
        << 1 basic.ack delivery_tag=4 multiple=true
        """,
    ) == _heard("basic.ack delivery_tag=3", "", "", "", "", "basic.ack delivery_tag=4 multiple=true")


@pytest.mark.parametrize("is_confirmed", [False, True])
@pytest.mark.parametrize("is_amid", [False, True])
@pytest.mark.parametrize("methods", [(), ("basic.publish",)])
def test_confirms_are_numbered_from_the_reload_on_that_begins_to_drop_them(methods, is_amid, is_confirmed):
    ack, third = "<< 1 basic.ack delivery_tag=2\n", said("a").split("\n    >> 1 body")
    water, dropped = _drops_from_reload_on(
        said("a") + ASKS_FOR_CONFIRMS + said("a") * 2 + (ack if is_confirmed else "") + (third[0] if is_amid else ""),
        *methods,
    )
    if not is_confirmed:
        _say(water, ack)
    _say(water, (">> 1 body" + third[1] if is_amid else said("a")) + said("a") * 3)
    dropped |= {1, 5}
    assert _say(
        water,
        """
        << 1 basic.ack delivery_tag=1
        << 1 basic.nack delivery_tag=4
        << 1 basic.ack delivery_tag=5
        << 1 basic.nack delivery_tag=6 multiple=true
        """,
    ) == _heard(
        "",
        "basic.nack delivery_tag=4",
        "",
        "basic.nack delivery_tag=3 multiple=true; basic.nack delivery_tag=6",
    )


# --- a channel that is closed

CLOSED = """
    <= 1 channel.close reply_code=403 reply_text='ACCESS_REFUSED - no' failing_class_id={0} failing_method_id={1}
    => 1 channel.close reply_code=200 reply_text='closed by a rule of the proxy'
"""
PUBLISH_CLOSED = CLOSED.format(60, 40)
DECLARE_CLOSED = CLOSED.format(50, 10)
UNKNOWN_TAG = CLOSED.format(60, 80).replace("403", "406")
UNKNOWN_TAG = UNKNOWN_TAG.replace("ACCESS_REFUSED - no", "PRECONDITION_FAILED - unknown delivery tag 7")


def test_a_refused_method_closes_its_channel_on_both_legs_and_no_other():
    water = play(
        ">> 1 queue.declare queue=bad"
        + DECLARE_CLOSED
        + """
        >> 1 basic.qos prefetch_count=1
        >> 2 basic.qos prefetch_count=1
        => 2 basic.qos prefetch_count=1
        >> 1 channel.close-ok
        << 1 channel.close-ok
        >> 1 channel.open
        => 1 channel.open
        << 1 channel.open-ok
        <= 1 channel.open-ok
        """,
        refuse,
        "queue.declare",
    )
    assert water.interceptor.evaluator.closed == [1]


def test_the_number_waits_for_the_brokers_close_ok_too():
    play(
        ">> 1 queue.declare queue=bad"
        + DECLARE_CLOSED
        + """
        >> 1 channel.close-ok
        >> 1 channel.open
        >> 1 basic.qos prefetch_count=1
        >> 2 basic.qos prefetch_count=1
        => 2 basic.qos prefetch_count=1
        << 1 channel.close-ok
        => 1 channel.open
        => 1 basic.qos prefetch_count=1
        << 1 channel.open-ok
        <= 1 channel.open-ok
        << 1 basic.qos-ok
        <= 1 basic.qos-ok
        """,
        refuse,
        "queue.declare",
    )


def test_the_number_waits_with_contents_too():
    play(
        ">> 1 queue.declare queue=bad"
        + DECLARE_CLOSED
        + """
        >> 1 channel.close-ok
        >> 1 channel.open
        >> 1 basic.publish routing_key=a
        >> 1 header 6
        >> 1 body abc
        << 1 channel.close-ok
        => 1 channel.open
        => 1 basic.publish routing_key=a
        => 1 header 6
        => 1 body abc
        >> 1 body def
        => 1 body def
        """,
        refuse,
        "queue.declare",
    )


def test_answers_that_the_client_no_longer_waits_for_are_swallowed():
    play(
        """
        >> 1 basic.qos prefetch_count=1
        => 1 basic.qos prefetch_count=1
        >> 1 queue.declare queue=bad
        """
        + DECLARE_CLOSED
        + """
        << 1 basic.qos-ok
        << 1 channel.close-ok
        >> 1 channel.close-ok
        """,
        refuse,
        "queue.declare",
    )


def test_a_publish_refused_at_its_method_has_its_content_swallowed():
    play(
        ">> 1 basic.publish routing_key=bad"
        + PUBLISH_CLOSED
        + """
        >> 1 header 3
        >> 1 body abc
        >> 1 channel.close-ok
        << 1 channel.close-ok
        """,
        refuse,
        "basic.publish",
        stage=Stage.METHOD,
    )


def test_a_close_waits_for_the_end_of_a_delivery():
    play(
        """
        >> 1 basic.consume queue=q consumer_tag=c no_ack=True
        => 1 basic.consume queue=q consumer_tag=c no_ack=True
        << 1 basic.consume-ok consumer_tag=c
        <= 1 basic.consume-ok consumer_tag=c
        << 1 basic.deliver consumer_tag=c delivery_tag=1
        << 1 header 6
        << 1 body abc
        <= 1 basic.deliver consumer_tag=c delivery_tag=1
        <= 1 header 6
        <= 1 body abc
        >> 1 queue.declare queue=bad
        << 1 body def
        <= 1 body def
        """
        + DECLARE_CLOSED
        + """
        << 1 basic.deliver consumer_tag=c delivery_tag=2
        << 1 header 3
        << 1 body abc
        << 1 channel.close-ok
        >> 1 channel.close-ok
        """,
        refuse,
        "queue.declare",
    )


def test_both_sides_close_at_once():
    play(
        ">> 1 queue.declare queue=bad"
        + DECLARE_CLOSED
        + """
        << 1 channel.close reply_code=404 reply_text=gone
        => 1 channel.close-ok
        >> 1 channel.close reply_code=200
        <= 1 channel.close-ok
        << 1 channel.close-ok
        >> 1 channel.close-ok
        >> 1 channel.open
        => 1 channel.open
        """,
        refuse,
        "queue.declare",
    )


def test_a_channel_refused_when_it_is_opened():
    def decide(context):
        return Verdict(command=None, close=Close(Scope.CHANNEL, 530, "NOT_ALLOWED - enough"))

    play(
        """
        >> 3 channel.open
        <= 3 channel.close reply_code=530 reply_text='NOT_ALLOWED - enough' failing_class_id=20 failing_method_id=10
        >> 3 channel.close-ok
        """,
        lambda context: decide(context) if context.command.channel == 3 else passes(context),
        "channel.open",
    )


def test_a_connection_that_is_refused():
    def decide(context):
        return Verdict(command=None, close=Close(Scope.CONNECTION, 530, "NOT_ALLOWED - no"))

    play(">> 1 basic.publish" + "\n!! 530 NOT_ALLOWED - no", decide, "basic.publish", stage=Stage.METHOD)


# --- what is changed


def rewritten(**changes):
    return lambda context: Verdict(command=context.command.altered(method=replace(context.command.method, **changes)))


def test_a_method_changed_before_its_content_has_come():
    for stage in (Stage.METHOD, Stage.HEADER, Stage.BODY):
        play(said("a") + said("b", "=>"), rewritten(routing_key="b"), "basic.publish", stage=stage)


def test_a_body_that_grew_is_split_to_the_frame_max():
    def decide(context):
        return Verdict(command=context.command.altered(body=b"x" * 200_000))

    water = play(
        said("a")
        + "=> 1 basic.publish routing_key=a\n=> 1 header 200000\n"
        + "=> 1 body "
        + "x" * 131064
        + "\n=> 1 body "
        + "x" * (200_000 - 131064),
        decide,
        "basic.publish",
    )
    assert water.interceptor.refusal is None


def test_a_body_that_passes_is_split_where_the_broker_takes_less_than_the_client():
    def decide(context):
        method = context.command.method
        if isinstance(method, BasicPublish):
            return Verdict(command=context.command)
        return Verdict(command=context.command.altered(method=replace(method, frame_max=4096)))

    for stage in (Stage.METHOD, Stage.HEADER, Stage.BODY):
        water = Water(ScriptedEvaluator(decide, ["connection.tune-ok", "basic.publish"], stage))
        for line in PRELUDE.strip().splitlines():
            water.say(*read(line))
        publish, header = read(">> 1 basic.publish")[1], read(">> 1 header 6000")[1]
        said = publish + header + read(">> 1 body " + "x" * 6000)[1]
        for _ in range(2):
            heard = water.say(CLIENT, said)[SERVER]
            bodies = read(">> 1 body " + "x" * 4088)[1] + read(">> 1 body " + "x" * 1912)[1]
            assert heard == publish + header + bodies


# --- what waits


def test_a_delayed_command_holds_up_its_channel_and_no_other():
    def decide(context):
        return Verdict(command=context.command, delay=2.0 if context.command.method.routing_key == "slow" else 0.0)

    play(
        said("slow")
        + said("next")
        + said("other", channel=2)
        + said("other", "=>", channel=2)
        + "-- 1\n-- 1\n"
        + said("slow", "=>")
        + said("next", "=>"),
        decide,
        "basic.publish",
        stage=Stage.METHOD,
    )


def test_a_connection_is_closed_behind_what_waits():
    play(
        said("a") + ">> connection.close\n-- 1" + said("a", "=>") + "=> connection.close",
        lambda context: Verdict(command=context.command, delay=1.0),
        "basic.publish",
    )


def test_a_held_command_is_refused_in_the_end():
    def decide(context):
        return Verdict(command=context.command, hold=HoldAction("look", 5.0, passes_at_timeout=False))

    play(
        ">> 1 queue.declare queue=q\n>> 1 basic.qos prefetch_count=1\n-- 5"
        + DECLARE_CLOSED.replace("no'", "held by rule '\"'\"'look'\"'\"', and not released in time'"),
        decide,
        "queue.declare",
    )


def test_a_held_command_is_let_go():
    def decide(context):
        return Verdict(command=context.command, hold=HoldAction("look", 5.0))

    water = play(">> 1 queue.declare queue=q\n>> 1 basic.qos prefetch_count=1", decide, "queue.declare")
    (number,) = water.interceptor.waiting
    water.interceptor.release(number, None, water.now)
    assert water.hear()[SERVER].count(b"\xce") == 2
    assert not water.interceptor.waiting


# --- commands of our own


def duplicated(context):
    method = replace(context.command.method, redelivered=True)
    copy = Command(context.command.channel, method, context.command.properties, context.command.body)
    return Verdict(command=context.command, insertions=(Insertion(CLIENT, copy),))


CONSUMES = """
    >> 1 basic.consume queue=q consumer_tag=c
    => 1 basic.consume queue=q consumer_tag=c
    << 1 basic.consume-ok consumer_tag=c
    <= 1 basic.consume-ok consumer_tag=c
"""


def delivered(tag, arrow="<<", redelivered=False, body="abc"):
    return f"""
    {arrow} 1 basic.deliver consumer_tag=c delivery_tag={tag} redelivered={redelivered}
    {arrow} 1 header 3
    {arrow} 1 body {body}
    """


def test_a_delivery_that_comes_twice():
    play(
        CONSUMES
        + delivered(1)
        + delivered(1, "<=")
        + delivered(2, "<=", True)
        + ">> 1 basic.ack delivery_tag=2\n>> 1 basic.ack delivery_tag=1\n=> 1 basic.ack delivery_tag=1\n"
        + delivered(2)
        + delivered(3, "<=")
        + delivered(4, "<=", True)
        + ">> 1 basic.ack delivery_tag=4 multiple=True\n=> 1 basic.ack delivery_tag=2 multiple=True",
        duplicated,
        "basic.deliver",
    )


def test_deliveries_that_change_places():
    def decide(context):
        return Verdict(command=context.command, behind=1 if context.command.body == b"aaa" else 0)

    play(
        CONSUMES
        + delivered(1, body="aaa")
        + delivered(2, body="bbb")
        + delivered(1, "<=", body="bbb")
        + delivered(2, "<=", body="aaa")
        + ">> 1 basic.ack delivery_tag=1\n=> 1 basic.ack delivery_tag=2\n"
        + ">> 1 basic.ack delivery_tag=2\n=> 1 basic.ack delivery_tag=1\n",
        decide,
        "basic.deliver",
        stage=Stage.BODY,
    )


def test_a_delivery_that_nothing_overtakes_comes_in_the_end():
    play(
        CONSUMES + delivered(1) + "-- 1" + delivered(1, "<="),
        lambda context: Verdict(command=context.command, behind=3),
        "basic.deliver",
    )


def test_a_delivery_that_is_kept_back_and_put_back():
    def decide(context):
        if context.command.body == b"bad":
            return Verdict(command=None, answer=Answer.REQUEUE)
        return Verdict(command=context.command)

    play(
        CONSUMES
        + delivered(1, body="bad")
        + "=> 1 basic.reject delivery_tag=1 requeue=True\n"
        + delivered(2)
        + delivered(1, "<=")
        + ">> 1 basic.ack delivery_tag=0 multiple=True\n=> 1 basic.ack delivery_tag=0 multiple=True",
        decide,
        "basic.deliver",
    )


def test_an_ack_of_what_the_client_never_had():
    play(
        CONSUMES
        + delivered(1)
        + delivered(1, "<=")
        + delivered(2, "<=", True)
        + """
        >> 1 basic.ack delivery_tag=7
        """
        + CLOSED.format(60, 80)
        .replace("403", "406")
        .replace("ACCESS_REFUSED - no", "PRECONDITION_FAILED - unknown delivery tag 7"),
        duplicated,
        "basic.deliver",
    )


def test_an_own_publish_takes_a_number_of_the_brokers():
    def decide(context):
        copy = Command(1, BasicPublish(routing_key="copy"), context.command.properties, context.command.body)
        return Verdict(command=context.command, insertions=(Insertion(SERVER, copy),))

    play(
        CONFIRMS
        + said("a")
        + said("a", "=>")
        + said("copy", "=>")
        + """
        << 1 basic.ack delivery_tag=2 multiple=True
        <= 1 basic.ack delivery_tag=1 multiple=True
        """
        + said("b")
        + said("b", "=>")
        + said("copy", "=>")
        + """
        << 1 basic.ack delivery_tag=4
        << 1 basic.ack delivery_tag=3
        <= 1 basic.ack delivery_tag=2
        """,
        decide,
        "basic.publish",
    )


def test_an_own_request_has_its_answer_swallowed():
    def decide(context):
        cancel = Command(1, BasicCancel("c", False))
        told = Command(1, BasicCancel("c", True))
        return Verdict(command=context.command, insertions=(Insertion(SERVER, cancel), Insertion(CLIENT, told)))

    play(
        CONSUMES
        + """
        >> 1 basic.cancel consumer_tag=other
        => 1 basic.cancel consumer_tag=other
        """
        + delivered(1)
        + delivered(1, "<=")
        + """
        => 1 basic.cancel consumer_tag=c
        <= 1 basic.cancel consumer_tag=c no_wait=True
        << 1 basic.cancel-ok consumer_tag=other
        <= 1 basic.cancel-ok consumer_tag=other
        << 1 basic.cancel-ok consumer_tag=c
        """,
        decide,
        "basic.deliver",
    )


def test_what_is_inserted_waits_for_the_end_of_a_content():
    def decide(context):
        return Verdict(command=None, answer=Answer.NACK)

    play(
        CONSUMES.replace("consumer_tag=c", "consumer_tag=c no_ack=True", 2)
        + CONFIRMS
        + """
        << 1 basic.deliver consumer_tag=c delivery_tag=1
        << 1 header 6
        <= 1 basic.deliver consumer_tag=c delivery_tag=1
        <= 1 header 6
        """
        + said("bad")
        + """
        << 1 body abcdef
        <= 1 body abcdef
        <= 1 basic.nack delivery_tag=1
        """,
        decide,
        "basic.publish",
    )


def test_the_connection_is_told_that_it_is_blocked_and_then_that_it_is_not():
    def decide(context):
        return Verdict(
            command=context.command,
            insertions=(
                Insertion(CLIENT, Command(0, ConnectionBlocked("wait"))),
                Insertion(CLIENT, Command(0, ConnectionUnblocked()), after=2.0),
            ),
        )

    play(
        said("a") + "<= connection.blocked reason=wait\n" + said("a", "=>") + "-- 2\n<= connection.unblocked",
        decide,
        "basic.publish",
    )


def test_the_rest_of_a_chunk_is_looked_over_once_a_channel_is_watched():
    """What is known to pass is not handed over: but behind a command that waits it has to wait too."""

    def decide(context):
        return Verdict(command=context.command, delay=1.0)

    water = opened(ScriptedEvaluator(decide, ["queue.declare"]))
    lines = [">> 1 basic.publish routing_key=a", ">> 1 header 0", ">> 1 queue.declare queue=q"]
    lines += [">> 1 basic.publish routing_key=b", ">> 1 header 0", ">> 2 basic.publish", ">> 2 header 0"]
    octets = [read(line)[1] for line in lines]
    assert water.say(CLIENT, b"".join(octets))[SERVER] == b"".join(octets[:2] + octets[5:])
    assert water.wait(1.0)[SERVER] == b"".join(octets[2:5])


def test_no_ack_deliveries_need_no_answer():
    play(
        CONSUMES.replace("consumer_tag=c", "consumer_tag=c no_ack=True", 2) + delivered(1),
        lambda context: Verdict(command=None, answer=Answer.REJECT),
        "basic.deliver",
    )
    assert BasicDeliver.carries_content


# --- ends that meet


def by_key(**verdicts):
    """A verdict by the routing key, the queue or the body of what is said; all else passes."""

    def decide(context):
        method = context.command.method
        keys = [getattr(method, name, "") for name in ("routing_key", "queue")] + [context.command.body.decode()]
        for key in keys:
            if key in verdicts:
                return verdicts[key](context)
        return passes(context)

    return decide


def refused(context):
    return Verdict(command=None, close=Close(Scope.CHANNEL, 403, "ACCESS_REFUSED - no"))


def slow(context):
    return Verdict(command=context.command, delay=1.0)


def held_for_good(context):
    return Verdict(command=context.command, hold=HoldAction("look", 60.0, passes_at_timeout=False))


def test_a_close_that_waits_behind_what_is_refused_is_answered():
    play(
        said("held")
        + ">> 1 channel.close reply_code=200\n-- 60"
        + """
        => 1 channel.close reply_code=200 reply_text='closed by a rule of the proxy'
        <= 1 channel.close-ok
        << 1 channel.close-ok
        >> 1 channel.open
        => 1 channel.open
        """,
        by_key(held=held_for_good),
        "basic.publish",
    )


def test_a_close_that_waits_is_answered_when_the_broker_closes_too():
    play(
        said("slow")
        + """
        >> 1 channel.close reply_code=200
        << 1 channel.close reply_code=404 reply_text=gone
        <= 1 channel.close-ok
        => 1 channel.close-ok
        -- 1
        >> 1 channel.open
        => 1 channel.open
        """,
        by_key(slow=slow),
        "basic.publish",
    )


def test_what_is_refused_on_a_channel_that_the_client_has_closed_closes_nothing():
    play(
        CONSUMES
        + ">> 1 channel.close reply_code=200\n=> 1 channel.close reply_code=200"
        + delivered(1, body="bad")
        + """
        << 1 channel.close-ok
        <= 1 channel.close-ok
        >> 1 channel.open
        => 1 channel.open
        """,
        by_key(bad=refused),
        "basic.deliver",
    )


def test_a_connection_is_closed_though_what_it_waited_for_is_gone():
    play(
        said("held")
        + """
        >> connection.close
        << 1 channel.close reply_code=404 reply_text=gone
        => connection.close
        """,
        by_key(held=held_for_good),
        "basic.publish",
    )


def test_a_connection_is_closed_behind_what_waits_for_a_channel_to_be_free():
    play(
        ">> 1 queue.declare queue=bad"
        + DECLARE_CLOSED
        + """
        >> 1 channel.close-ok
        >> 1 channel.open
        >> 1 queue.declare queue=q
        >> connection.close
        << 1 channel.close-ok
        => 1 channel.open
        => 1 queue.declare queue=q
        => connection.close
        """,
        refuse,
        "queue.declare",
    )


def test_nobody_lets_what_is_held_pass_by_going_away():
    water = opened(ScriptedEvaluator(by_key(held=held_for_good), ["basic.publish"]))
    for line in said("held").split("\n")[1:4]:
        water.say(*read(line.strip()))
    water.interceptor.release_all(water.now)
    heard = water.hear()
    assert b"abc" not in heard[SERVER]
    assert b"not released in time" in heard[CLIENT]


def test_the_broker_can_be_the_one_who_is_told():
    def decide(context):
        return Verdict(command=None, close=Close(Scope.CHANNEL, 541, "INTERNAL_ERROR - no", receiver=SERVER))

    play(
        CONSUMES
        + delivered(1)
        + """
        <= 1 channel.close reply_code=200 reply_text='closed by a rule of the proxy'
        => 1 channel.close reply_code=541 reply_text='INTERNAL_ERROR - no' failing_class_id=60 failing_method_id=60
        """,
        decide,
        "basic.deliver",
    )


def test_what_comes_after_a_while_is_not_for_the_next_channel_of_that_number():
    def decide(context):
        copy = Command(1, BasicPublish(routing_key="later"))
        return Verdict(command=context.command, insertions=(Insertion(SERVER, copy, after=5.0),))

    play(
        ">> 1 queue.declare queue=q\n=> 1 queue.declare queue=q"
        + """
        << 1 queue.declare-ok queue=q
        <= 1 queue.declare-ok queue=q
        >> 1 channel.close reply_code=200
        => 1 channel.close reply_code=200
        << 1 channel.close-ok
        <= 1 channel.close-ok
        >> 1 channel.open
        => 1 channel.open
        << 1 channel.open-ok
        <= 1 channel.open-ok
        -- 5
        """,
        decide,
        "queue.declare",
    )


def test_a_client_that_is_not_yet_there_is_not_told_that_it_is_blocked():
    def decide(context):
        blocked = Command(0, ConnectionBlocked("wait"))
        return Verdict(command=context.command, insertions=(Insertion(CLIENT, blocked),))

    water = Water(ScriptedEvaluator(decide, ["channel.open"]))
    for line in PRELUDE.strip().splitlines()[:5]:
        water.say(*read(line.strip()))
    sender, octets = read(">> 1 channel.open")
    assert water.say(sender, octets) == {CLIENT: b"", SERVER: octets}


# --- numbers


def own_publish(**options):
    def decide(context):
        copy = Command(1, BasicPublish(routing_key="own"))
        return Verdict(command=context.command, insertions=(Insertion(SERVER, copy, **options),))

    return decide


OWN = "=> 1 basic.publish routing_key=own\n=> 1 header 0\n"


def test_an_own_publish_ahead_of_what_is_none():
    play(
        CONFIRMS
        + said("a")
        + said("a", "=>")
        + ">> 1 queue.declare queue=q\n"
        + OWN
        + "=> 1 queue.declare queue=q\n"
        + said("b")
        + said("b", "=>")
        + """
        << 1 basic.ack delivery_tag=1
        <= 1 basic.ack delivery_tag=1
        << 1 basic.ack delivery_tag=2
        << 1 basic.ack delivery_tag=3
        <= 1 basic.ack delivery_tag=2
        """,
        own_publish(is_ahead=True),
        "queue.declare",
    )


def test_an_own_publish_ahead_of_one_that_has_not_all_come():
    decide = by_key(q=own_publish(after=1.0))
    play(
        CONFIRMS
        + ">> 1 queue.declare queue=q\n=> 1 queue.declare queue=q\n"
        + ">> 1 basic.publish routing_key=a\n>> 1 header 3\n-- 1\n"
        + OWN
        + ">> 1 body abc\n"
        + said("a", "=>")
        + """
        << 1 basic.ack delivery_tag=1
        << 1 basic.ack delivery_tag=2
        <= 1 basic.ack delivery_tag=1
        """,
        decide,
        "basic.publish",
        "queue.declare",
    )


def test_an_own_publish_from_before_confirms_were_asked_for():
    decide = by_key(q=own_publish(after=1.0))
    play(
        ">> 1 queue.declare queue=q\n=> 1 queue.declare queue=q\n"
        + CONFIRMS
        + "-- 1\n"
        + OWN
        + said("a")
        + said("a", "=>")
        + """
        << 1 basic.ack delivery_tag=2 multiple=True
        <= 1 basic.ack delivery_tag=1 multiple=True
        """,
        decide,
        "queue.declare",
    )


def test_an_own_publish_while_the_wish_for_confirms_waits():
    play(
        CONSUMES
        + ">> 1 queue.declare queue=slow\n>> 1 confirm.select\n"
        + delivered(1)
        + delivered(1, "<=")
        + OWN
        + "-- 1\n=> 1 queue.declare queue=slow\n=> 1 confirm.select\n"
        + said("a")
        + said("a", "=>")
        + """
        << 1 queue.declare-ok queue=slow
        << 1 confirm.select-ok
        << 1 basic.ack delivery_tag=1
        <= 1 queue.declare-ok queue=slow
        <= 1 confirm.select-ok
        <= 1 basic.ack delivery_tag=1
        """,
        by_key(slow=slow, abc=own_publish()),
        "basic.deliver",
        "queue.declare",
    )


def test_a_publish_from_before_confirms_were_asked_for_is_not_nacked_later():
    def nacked(context):
        return Verdict(command=None, answer=Answer.NACK)

    play(
        said("slow")
        + said("bad")
        + ">> 1 confirm.select\n-- 1"
        + said("slow", "=>")
        # its channel is closed instead, and the client is told: there is nothing to nack
        + PUBLISH_CLOSED.replace("- no", "- refused by a rule of the proxy"),
        by_key(slow=slow, bad=nacked),
        "basic.publish",
    )


def test_a_channel_that_is_opened_late_is_watched_on_both_sides():
    def decide(context):
        if context.command.method.name == "channel.open":
            return slow(context)
        return (
            Verdict(command=None, answer=Answer.ACK) if context.command.method.routing_key == "bad" else passes(context)
        )

    play(
        """
        >> 3 channel.open
        -- 1
        => 3 channel.open
        << 3 channel.open-ok
        <= 3 channel.open-ok
        >> 3 confirm.select
        => 3 confirm.select
        << 3 confirm.select-ok
        <= 3 confirm.select-ok
        """
        + said("bad", channel=3)
        + "<= 3 basic.ack delivery_tag=1\n"
        + said("good", channel=3)
        + said("good", "=>", channel=3)
        + "<< 3 basic.ack delivery_tag=1\n<= 3 basic.ack delivery_tag=2",
        decide,
        "channel.open",
        "basic.publish",
    )


def test_deliveries_that_need_no_ack_get_none_though_their_consumer_is_gone():
    def rejected(context):
        return Verdict(command=None, answer=Answer.REJECT)

    play(
        CONSUMES.replace("consumer_tag=c", "consumer_tag=c no_ack=True", 2)
        + ">> 1 basic.cancel consumer_tag=c\n=> 1 basic.cancel consumer_tag=c\n"
        + delivered(1, body="aaa")
        + delivered(2, body="bad")
        + "<< 1 basic.cancel-ok consumer_tag=c\n-- 1"
        + delivered(1, "<=", body="aaa")
        + "<= 1 basic.cancel-ok consumer_tag=c",
        by_key(aaa=slow, bad=rejected),
        "basic.deliver",
    )


def test_consumers_are_known_by_the_names_that_the_broker_has_for_them():
    """A copy needs no ack where the consumer is one that gives none, whatever the client calls it."""

    def decide(context):
        method = context.command.method
        if method.name == "basic.consume":
            return Verdict(command=context.command.altered(method=replace(method, consumer_tag="theirs")))
        renamed = context.command.altered(method=replace(method, consumer_tag="c"))
        if method.name == "basic.deliver":
            copy = Command(1, replace(method, consumer_tag="c"), body=context.command.body)
            return Verdict(command=renamed, insertions=(Insertion(CLIENT, copy),))
        return Verdict(command=renamed)

    water = play(
        """
        >> 1 basic.consume queue=q consumer_tag=c no_ack=True
        => 1 basic.consume queue=q consumer_tag=theirs no_ack=True
        << 1 basic.consume-ok consumer_tag=theirs
        <= 1 basic.consume-ok consumer_tag=c
        """
        + delivered(1).replace("consumer_tag=c", "consumer_tag=theirs")
        + delivered(1, "<=")
        + delivered(2, "<="),
        decide,
        "basic.consume",
        "basic.consume-ok",
        "basic.deliver",
    )
    assert water.interceptor.channels[1].tags.deliveries.open == 0


def test_what_was_overtaken_comes_before_its_consumer_is_gone():
    play(
        CONSUMES
        + ">> 1 basic.cancel consumer_tag=c\n=> 1 basic.cancel consumer_tag=c\n"
        + delivered(1)
        + "<< 1 basic.cancel-ok consumer_tag=c"
        + delivered(1, "<=")
        + "<= 1 basic.cancel-ok consumer_tag=c\n-- 1",
        lambda context: Verdict(command=context.command, behind=3),
        "basic.deliver",
    )


def test_what_was_overtaken_is_not_sent_when_it_is_to_come_again():
    play(
        CONSUMES
        + delivered(1)
        + """
        >> 1 basic.recover requeue=True
        => 1 basic.recover requeue=True
        << 1 basic.recover-ok
        <= 1 basic.recover-ok
        -- 1
        """
        + delivered(2)
        + "-- 1"
        + delivered(1, "<=")
        + ">> 1 basic.ack delivery_tag=1 multiple=True\n=> 1 basic.ack delivery_tag=2 multiple=True",
        lambda context: Verdict(command=context.command, behind=3),
        "basic.deliver",
    )


def test_what_is_requeued_by_a_recover_is_not_rejected_besides():
    def rejected(context):
        return Verdict(command=None, answer=Answer.REJECT)

    play(
        CONSUMES
        + ">> 1 basic.recover requeue=True\n=> 1 basic.recover requeue=True\n"
        + delivered(1, body="bad")
        + "<< 1 basic.recover-ok\n<= 1 basic.recover-ok\n"
        + delivered(2, body="bad")
        + "=> 1 basic.reject delivery_tag=2 requeue=False",
        by_key(bad=rejected),
        "basic.deliver",
    )


def test_after_a_recover_that_is_not_answered_old_deliveries_are_not_acknowledged():
    def decide(context):
        if context.command.body == b"bad":
            return Verdict(command=None)
        return duplicated(context)

    play(
        CONSUMES
        + delivered(1)
        + delivered(1, "<=")
        + delivered(2, "<=", True)
        + ">> 1 basic.recover-async requeue=True\n=> 1 basic.recover-async requeue=True\n"
        + delivered(2, body="bad")
        + delivered(3)
        + delivered(3, "<=")
        + delivered(4, "<=", True)
        + ">> 1 basic.ack delivery_tag=4 multiple=True\n=> 1 basic.ack delivery_tag=3",
        decide,
        "basic.deliver",
    )


def test_what_is_settled_behind_a_commit_can_be_taken_back_before_that_is_answered():
    play(
        CONSUMES
        + ">> 1 tx.select\n=> 1 tx.select\n<< 1 tx.select-ok\n<= 1 tx.select-ok\n"
        + delivered(1)
        + delivered(1, "<=")
        + delivered(2, "<=", True)
        + """
        >> 1 tx.commit
        => 1 tx.commit
        >> 1 basic.ack delivery_tag=1
        => 1 basic.ack delivery_tag=1
        << 1 tx.commit-ok
        <= 1 tx.commit-ok
        >> 1 tx.rollback
        => 1 tx.rollback
        << 1 tx.rollback-ok
        <= 1 tx.rollback-ok
        >> 1 basic.ack delivery_tag=1
        => 1 basic.ack delivery_tag=1
        """,
        duplicated,
        "basic.deliver",
    )


def test_an_own_request_is_told_from_one_whose_answer_waits():
    qos = Insertion(SERVER, Command(1, BasicQos(0, 9, False)))

    def asked(context):
        return Verdict(command=context.command, insertions=(qos,))

    play(
        CONSUMES
        + ">> 1 basic.qos prefetch_count=1\n=> 1 basic.qos prefetch_count=1\n"
        + delivered(1, body="aaa")
        + "<< 1 basic.qos-ok\n>> 1 queue.declare queue=q\n=> 1 queue.declare queue=q\n=> 1 basic.qos prefetch_count=9\n"
        + "<< 1 queue.declare-ok queue=q\n<< 1 basic.qos-ok\n-- 1"
        + delivered(1, "<=", body="aaa")
        + "<= 1 basic.qos-ok\n<= 1 queue.declare-ok queue=q",
        by_key(aaa=slow, q=lambda context: asked(context) if context.sender is CLIENT else passes(context)),
        "basic.deliver",
        "queue.declare",
    )


# --- while it goes on


def test_nothing_is_inserted_into_a_content_that_was_under_way_when_all_began_to_be_looked_at():
    water = opened(ScriptedEvaluator(drop(Answer.NACK), ["basic.publish"]))
    lines = CONFIRMS + CONSUMES.replace("consumer_tag=c", "consumer_tag=c no_ack=True", 2)
    lines += "<< 1 basic.deliver consumer_tag=c delivery_tag=1\n<< 1 header 6"
    for line in lines.strip().splitlines():
        if line.strip().startswith((">>", "<<")):
            water.say(*read(line.strip()))
    water.interceptor.gate = lambda sender, frame: True
    water.interceptor.ask_for_frames()
    assert water.say(*read("<< 1 body abc"))[CLIENT] == read("<= 1 body abc")[1]
    for line in said("bad").strip().splitlines():
        assert water.say(*read(line.strip()))[CLIENT] == b""
    assert water.say(*read("<< 1 body def"))[CLIENT] == b"".join(
        read(line)[1] for line in ("<= 1 body def", "<= 1 basic.nack delivery_tag=1")
    )


def test_what_is_under_way_at_a_reload_is_evaluated_by_all_that_the_new_rules_must_see():
    seen_bodies = []

    def decide(context):
        seen_bodies.append(context.command.body)
        return passes(context)

    water = opened(ScriptedEvaluator(passes, ["basic.publish"], Stage.HEADER))
    water.say(*read(">> 1 basic.publish routing_key=a"))
    water.interceptor.evaluator = ScriptedEvaluator(decide, ["basic.publish"], Stage.BODY)
    water.interceptor.ask_for_frames()
    water.say(*read(">> 1 header 3"))
    water.say(*read(">> 1 body abc"))
    assert seen_bodies == [b"abc"]


# --- bounds


def test_what_one_peer_has_said_does_not_keep_the_other_from_being_read(monkeypatch):
    monkeypatch.setattr("amqproxy.proxy.interception.interceptor.MAX_HELD", 1000)
    water = opened(ScriptedEvaluator(refuse, ["queue.declare"]))
    for line in [">> 1 queue.declare queue=bad", ">> 1 channel.close-ok", ">> 1 channel.open", *said("a").split("\n")]:
        if line.strip():
            water.say(*read(line.strip()))
    assert water.interceptor.is_full(CLIENT)
    assert not water.interceptor.is_full(SERVER)
    water.say(*read("<< 1 channel.close-ok"))
    assert not water.interceptor.is_full(CLIENT)


def test_own_commands_that_wait_for_the_end_of_a_content_are_bounded_too(monkeypatch):
    monkeypatch.setattr("amqproxy.proxy.interception.interceptor.MAX_HELD", 10_000)
    water = opened(ScriptedEvaluator(lambda context: Verdict(command=None, answer=Answer.REJECT), ["basic.deliver"]))
    for line in CONSUMES.strip().splitlines():
        if line.strip().startswith((">>", "<<")):
            water.say(*read(line.strip()))
    water.say(*read(">> 1 basic.publish routing_key=a"))
    tag = 0
    while not water.interceptor.is_full(SERVER):
        tag += 1
        assert tag < 100
        for line in delivered(tag).strip().splitlines():
            water.say(*read(line.strip()))
    assert not water.interceptor.is_full(CLIENT)
    assert water.say(*read(">> 1 header 0"))[SERVER].count(b"\xce") == tag + 1
    assert not water.interceptor.is_full(SERVER)
    assert all(load.size == 0 for load in water.interceptor.loads.values())


def test_a_message_in_too_many_frames_is_refused(monkeypatch):
    monkeypatch.setattr("amqproxy.proxy.amqp091.interception.channel_interceptor.MAX_FRAMES", 10)
    water = opened(ScriptedEvaluator(passes, ["basic.publish"]))
    lines = [">> 1 basic.publish routing_key=a", ">> 1 header 3", *[">> 1 body ''"] * 9]
    heard = [water.say(*read(line))[CLIENT] for line in lines]
    assert b"CONTENT_TOO_LARGE - a message in more than 10 frames" in heard[-1]
    assert water.interceptor.gathering.size == 0


def test_messages_that_are_too_large_together_are_refused():
    water = opened(ScriptedEvaluator(passes, ["basic.publish"]))
    water.interceptor.share.memory.share_limit = 5000
    for line in (">> 1 basic.publish routing_key=a", ">> 1 header 4000", ">> 2 basic.publish", ">> 2 header 4000"):
        water.say(*read(line))
    assert water.say(*read(">> 1 body " + "x" * 1500))[CLIENT] == b""
    assert b"CONTENT_TOO_LARGE - there is no memory now" in water.say(*read(">> 2 body " + "x" * 2500))[CLIENT]
    assert water.say(*read(">> 1 body " + "x" * 2500))[SERVER]
    assert water.interceptor.share.used == 0


def test_a_message_larger_than_a_session_may_keep_is_refused_by_its_header():
    water = opened(ScriptedEvaluator(passes, ["basic.publish"]))
    water.interceptor.share.memory.share_limit = 5000
    water.say(*read(">> 1 basic.publish routing_key=a"))
    heard = water.say(*read(">> 1 header 5001"))
    assert b"PRECONDITION_FAILED - message size 5001 is larger than the 5000 bytes" in heard[CLIENT]
    assert heard[SERVER] == read("=> 1 channel.close reply_code=200 reply_text='closed by a rule of the proxy'")[1]


def test_what_one_session_keeps_is_not_taken_from_another():
    memory = MemoryBudget(100_000, 80_000)
    greedy, modest = (opened(ScriptedEvaluator(passes, ["basic.publish"]), memory=memory) for _ in range(2))
    closed = b""
    for channel in (1, 2):
        for line in (f">> {channel} basic.publish", f">> {channel} header 79000", f">> {channel} body " + "x" * 40_000):
            closed += greedy.say(*read(line))[CLIENT]
    assert closed.count(b"CONTENT_TOO_LARGE") == 1
    for line in (">> 1 basic.publish routing_key=a", ">> 1 header 20000"):
        modest.say(*read(line))
    assert modest.say(*read(">> 1 body " + "x" * 20_000))[SERVER]
    greedy.interceptor.evaluator.session_over = lambda: None
    greedy.interceptor.end()
    assert memory.used == 0


def test_who_keeps_too_much_waiting_is_not_read_from_until_it_is_less():
    water = opened(ScriptedEvaluator(is_slow, ["basic.publish"], Stage.METHOD))
    water.interceptor.share.memory.share_limit = 5000
    water.say(*read(">> 1 basic.publish routing_key=slow"))
    water.say(*read(">> 1 header 0"))
    while not water.interceptor.is_full(CLIENT):
        water.say(*read(">> 1 basic.qos"))
    assert not water.interceptor.is_full(SERVER)
    assert 5000 < water.interceptor.share.used < 6000
    water.wait(3.0)
    assert not water.interceptor.is_full(CLIENT)


def test_what_a_rule_has_made_of_a_command_that_waits_counts(monkeypatch):
    def make_large(context):
        return Verdict(command=context.command.altered(body=bytes(100_000)), delay=2.0)

    water = opened(ScriptedEvaluator(make_large, ["basic.publish"]))
    water.say(*read(">> 1 basic.publish"))
    water.say(*read(">> 1 header 0"))
    assert water.interceptor.share.used > 100_000
    water.wait(3.0)
    assert water.interceptor.share.used == 0


def test_what_is_to_be_done_later_is_bounded(monkeypatch):
    monkeypatch.setattr("amqproxy.proxy.timers.MAX_TIMERS", 3)
    water = opened(ScriptedEvaluator(own_publish(after=60.0), ["basic.publish"]))
    sender, octets = read(">> 1 basic.publish")
    water.say(sender, octets + read(">> 1 header 0")[1])
    water.say(sender, octets + read(">> 1 header 0")[1])
    water.say(sender, octets + read(">> 1 header 0")[1])
    with pytest.raises(ResourceError):
        water.say(sender, octets + read(">> 1 header 0")[1])


def test_nothing_is_left_of_what_was_held_and_let_go():
    water = opened(ScriptedEvaluator(by_key(held=held_for_good), ["basic.publish"]))
    for _ in range(200):
        for line in said("held").strip().splitlines():
            water.say(*read(line.strip()))
        (number,) = water.interceptor.waiting
        water.interceptor.release(number, None, water.now)
        water.hear()
    assert len(water.interceptor._delayed._timers) == 0
    assert len(water.interceptor._delayed._timers._heap) <= 130


def test_what_we_have_settled_ourselves_is_not_the_clients_to_take_back():
    play(
        CONSUMES
        + """
        >> 1 tx.select
        => 1 tx.select
        << 1 tx.select-ok
        <= 1 tx.select-ok
        """
        + delivered(1, body="bad")
        + """
        => 1 basic.reject delivery_tag=1 requeue=True
        >> 1 tx.rollback
        => 1 tx.rollback
        => 1 basic.reject delivery_tag=1 requeue=True
        >> 1 tx.commit
        => 1 tx.commit
        >> 1 tx.rollback
        => 1 tx.rollback
        """,
        lambda context: Verdict(command=None, answer=Answer.REQUEUE),
        "basic.deliver",
    )


# --- work is in proportion to what was said


@pytest.fixture
def frames_made(monkeypatch):
    """How many frames an interceptor has made of bytes so far, in a list of one."""
    made = [0]

    def counting(*arguments):
        frames = every_frame(*arguments)
        made[0] += len(frames)
        return frames

    monkeypatch.setattr("amqproxy.proxy.amqp091.interception.chunk_frames.every_frame", counting)
    return made


def test_frames_are_looked_over_once_however_many_channels_begin_to_differ(frames_made):
    made = []
    for channels in (50, 200):
        evaluator = ScriptedEvaluator(
            lambda context: Verdict(command=None, answer=Answer.NACK), ["basic.publish"], Stage.METHOD
        )
        water = opened(evaluator)
        numbers = range(3, channels + 3)
        for number in numbers:
            for line in ("channel.open", "confirm.select"):
                water.say(*read(f">> {number} {line}"))
                water.say(*read(f"<< {number} {line}-ok"))
        lines = [f">> {number} {line}" for number in numbers for line in ("basic.publish", "header 0")]
        frames_made[0] = 0
        heard = water.say(CLIENT, b"".join([read(line)[1] for line in lines]))
        assert heard[CLIENT] == b"".join([read(f"<= {number} basic.nack delivery_tag=1")[1] for number in numbers])
        assert heard[SERVER] == b""
        made.append(frames_made[0])
    assert made[1] < 5 * made[0]


# --- turns


def is_slow(context):
    return Verdict(command=context.command, delay=2.0 if context.command.method.routing_key == "slow" else 0.0)


def wait_turn(water, seconds=0.0):
    """The routing keys that the broker hears in one turn."""
    heard = water.wait(seconds)[SERVER]
    return [frame.method.routing_key for frame in every_frame(heard, 0) if frame.index == BasicPublish.index]


def with_a_backlog(count):
    water = opened(ScriptedEvaluator(is_slow, ["basic.publish"], Stage.METHOD))
    water.say(*read(">> 1 basic.publish routing_key=slow"))
    water.say(*read(">> 1 header 0"))
    for number in range(count):
        water.say(*read(f">> 1 basic.publish routing_key={number}"))
        water.say(*read(">> 1 header 0"))
    return water


def test_a_long_backlog_goes_on_in_turns_and_in_order(monkeypatch):
    monkeypatch.setattr("amqproxy.proxy.interception.delayed_commands.TURN", 10)
    water = with_a_backlog(50)
    turns = [wait_turn(water, 3.0)]
    assert water.interceptor.next_deadline <= water.now
    water.say(*read(">> 1 basic.publish routing_key=last"))
    assert water.say(*read(">> 1 header 0"))[SERVER] == b""  # it waits behind the others
    water.say(*read(">> connection.close reply_code=200"))
    assert water.interceptor.connections[SERVER].state is ConnectionState.OPEN
    while water.interceptor.next_deadline <= water.now:
        turns.append(wait_turn(water))
    assert [key for turn in turns for key in turn] == ["slow", *[str(number) for number in range(50)], "last"]
    assert max(len(turn) for turn in turns) <= 10
    assert water.interceptor.connections[SERVER].state is ConnectionState.CLOSED_BY_CLIENT
    assert water.interceptor.loads[CLIENT].size == 0


def test_all_that_waits_is_released_in_turns(monkeypatch):
    monkeypatch.setattr("amqproxy.proxy.interception.delayed_commands.TURN", 10)
    water = with_a_backlog(50)
    heard = 0
    water.interceptor.release_all(water.now)
    while water.interceptor.is_releasing:
        now = water.hear()[SERVER].count(b"\xce")
        assert now <= 10
        heard += now
        water.interceptor.go_on_releasing(water.now)
    assert heard + water.hear()[SERVER].count(b"\xce") == 102
    assert not water.interceptor.waiting


def test_a_channel_that_closes_before_its_turn_drops_what_waited(monkeypatch):
    monkeypatch.setattr("amqproxy.proxy.interception.delayed_commands.TURN", 10)
    water = with_a_backlog(50)
    assert len(wait_turn(water, 3.0)) > 0
    water.say(*read("<< 1 channel.close reply_code=404"))
    assert wait_turn(water) == []
    assert not water.interceptor._delayed.resuming
    assert water.interceptor.loads[CLIENT].size == 0


def with_a_content_in_many_frames(monkeypatch, bodies=50, missing=0):
    """A channel on which a turn has ended in the middle of a content, with this many bodies still queued or to come."""
    monkeypatch.setattr("amqproxy.proxy.interception.delayed_commands.TURN", 10)
    water = opened(ScriptedEvaluator(is_slow, ["basic.publish"], Stage.METHOD))
    for line in (">> 1 basic.publish routing_key=slow", ">> 1 header 0", ">> 1 basic.publish routing_key=a"):
        water.say(*read(line))
    water.say(*read(f">> 1 header {bodies + missing}"))
    for _ in range(bodies):
        water.say(*read(">> 1 body a"))
    return water


def turns_of(water):
    """What both peers hear in each turn, until nothing is left to be done now; no turn may send more than ten."""
    turns = []
    while water.interceptor.next_deadline <= water.now:
        heard = water.wait(0.0)
        frames = {peer: every_frame(octets, 0) for peer, octets in heard.items()}
        assert sum(map(len, frames.values())) <= 12  # with the closes for both
        turns.append(frames)
    return turns


def sent_to(peer, turns):
    return [frame for turn in turns for frame in turn[peer]]


def test_the_rest_of_a_content_goes_to_a_broker_that_closes_the_channel_in_turns(monkeypatch):
    water = with_a_content_in_many_frames(monkeypatch)
    water.wait(3.0)
    heard = water.say(*read("<< 1 channel.close reply_code=404"))
    assert [frame.index for frame in every_frame(heard[CLIENT], 0)] == [ChannelClose.index]
    assert len(every_frame(heard[SERVER], 0)) <= 10
    water.say(*read(">> 1 basic.publish routing_key=late"))
    water.say(*read(">> 1 header 3"))
    water.say(*read(">> 1 body abc"))
    water.say(*read(">> 1 channel.close-ok"))
    rest = [*every_frame(heard[SERVER], 0), *sent_to(SERVER, turns_of(water))]
    assert [frame.kind for frame in rest] == [BODY] * (len(rest) - 1) + [METHOD]
    assert rest[-1].index == ChannelCloseOk.index
    assert 42 <= len(rest) <= 51
    assert water.interceptor.loads[CLIENT].size == 0
    assert 1 not in water.interceptor.channels


@pytest.mark.parametrize("missing", [0, 5])
def test_the_rest_of_a_content_goes_in_turns_before_an_operator_closes_the_channel(monkeypatch, missing):
    water = with_a_content_in_many_frames(monkeypatch, missing=missing)
    water.wait(3.0)
    water.interceptor.close_channel(1, Close(Scope.CHANNEL, 406, "enough"), water.now)
    rest = [*every_frame(water.hear()[SERVER], 0)]
    assert len(rest) <= 10
    for _ in range(missing):
        rest += every_frame(water.say(*read(">> 1 body a"))[SERVER], 0)
    for line in (">> 1 basic.publish routing_key=late", ">> 1 header 3", ">> 1 body abc"):
        water.say(*read(line))
    turns = turns_of(water)
    rest += sent_to(SERVER, turns)
    assert [frame.kind for frame in rest] == [BODY] * (len(rest) - 1) + [METHOD]
    assert rest[-1].index == ChannelClose.index
    assert 42 + missing <= len(rest) <= 51 + missing
    assert [frame.index for frame in sent_to(CLIENT, turns)] == [ChannelClose.index]


def test_the_rest_of_a_content_goes_in_turns_before_both_peers_are_answered(monkeypatch):
    water = with_a_content_in_many_frames(monkeypatch)
    water.say(*read(">> 1 channel.close reply_code=200"))
    water.wait(3.0)
    heard = water.say(*read("<< 1 channel.close reply_code=404"))
    assert heard[CLIENT] == b""
    turns = turns_of(water)
    rest = [*every_frame(heard[SERVER], 0), *sent_to(SERVER, turns)]
    assert [frame.kind for frame in rest] == [BODY] * (len(rest) - 1) + [METHOD]
    assert rest[-1].index == ChannelCloseOk.index
    assert [frame.index for frame in sent_to(CLIENT, turns)] == [ChannelCloseOk.index]
    assert 1 not in water.interceptor.channels


# --- what rules make, and a frame cannot hold


def with_large_headers(context):
    headers = Table({f"{number}": "x" * 1000 for number in range(140)})
    return Verdict(command=context.command.altered(properties=Properties(headers=headers)), marks=("large",))


LARGE_HEADERS_ARE_REFUSED = """
    >> 1 basic.publish routing_key=a
    >> 1 header 3
    <= 1 channel.close reply_code=541 reply_text='{text}' failing_class_id=60 failing_method_id=40
    => 1 channel.close reply_code=200 reply_text='closed by a rule of the proxy'
    >> 1 body abc
    >> 2 queue.declare queue=q
    => 2 queue.declare queue=q
    >> 1 channel.close-ok
    << 1 channel.close-ok
"""


@pytest.mark.parametrize("stage", [Stage.HEADER, Stage.BODY])
def test_a_header_that_rules_have_made_too_large_for_a_frame_is_refused(stage):
    text = "INTERNAL_ERROR - rules made a frame of 141176 bytes, where 131072 is the most"
    transcript = LARGE_HEADERS_ARE_REFUSED.format(text=text)
    if stage is Stage.BODY:
        transcript = transcript.replace("    >> 1 body abc\n", "").replace("    <= 1", "    >> 1 body abc\n    <= 1", 1)
    water = play(transcript, with_large_headers, "basic.publish", stage=stage)
    assert water.interceptor.take_effects().logged[0][0] == "error"
    assert water.interceptor.share.used == 0


@pytest.mark.parametrize("stage", [Stage.METHOD, Stage.HEADER, Stage.BODY])
@pytest.mark.parametrize("is_rewritten", [False, True])
def test_a_client_is_sent_content_headers_above_frame_max_as_rabbitmq_does(stage, is_rewritten):
    def decide(context):
        properties = context.command.properties
        if not is_rewritten or properties.headers is None:
            return Verdict(command=context.command)
        return Verdict(command=context.command.altered(properties=replace(properties, app_id="a")))

    water = opened(ScriptedEvaluator(decide, ["basic.deliver"], stage))
    headers = Table({f"{number}": "x" * 1000 for number in range(140)})
    said = Command(1, BasicDeliver("t", 1), Properties(headers=headers), b"abc")
    due = said
    if is_rewritten and stage is not Stage.METHOD:
        due = Command(1, BasicDeliver("t", 1), Properties(headers=headers, app_id="a"), b"abc")
    assert water.say(SERVER, said.encode(0))[CLIENT] == due.encode(0)
    assert water.interceptor.refusal is None


def test_a_command_of_our_own_that_does_not_fit_a_frame_closes_its_channel_only():
    def copies(context):
        copy = Command(1, context.command.method, Properties(headers=Table({"x": "y" * 140_000})), b"")
        return Verdict(command=context.command, insertions=(Insertion(SERVER, copy),))

    water = opened(ScriptedEvaluator(copies, ["basic.publish"]))
    water.say(*read(">> 1 basic.publish"))
    heard = water.say(*read(">> 1 header 0"))
    assert heard[CLIENT].startswith(b"\x01\x00\x01")
    assert b"INTERNAL_ERROR - rules made a frame" in heard[CLIENT]
    assert water.interceptor.refusal is None


def test_what_nobody_can_encode_is_refused():
    """Rules see to it that there is no such thing; if there is, all the same, it costs its channel."""

    def decide(context):
        return Verdict(command=context.command.altered(BasicPublish(routing_key="x" * 256)), marks=("r",))

    water = opened(ScriptedEvaluator(decide, ["basic.publish"], Stage.METHOD))
    text = "INTERNAL_ERROR - rules made what cannot be encoded (ValueError)"
    water.say(*read(">> 1 basic.publish routing_key=a"))
    assert [
        close.text
        for channel_interceptor in water.interceptor.channels.values()
        if (close := channel_interceptor.closing)
    ] == [text]
    assert water.interceptor.take_effects().logged == [
        ("error", "refused what was made by rule 'r': what cannot be encoded (ValueError)")
    ]


# --- a channel is closed in the middle of a content: who has had the beginning of it gets the rest

HELD_CLOSES = "channel.close"


def late_close(context):
    delay = 1.0 if context.command.method.name == HELD_CLOSES else 0.0
    return Verdict(command=context.command, delay=delay)


@pytest.mark.parametrize("evaluated", ["queue.declare", "basic.publish"])
def test_a_publish_that_the_broker_closes_the_channel_on_is_sent_to_its_end(evaluated):
    play(
        """
        >> 1 basic.publish routing_key=k
        => 1 basic.publish routing_key=k
        << 1 channel.close reply_code=404
        <= 1 channel.close reply_code=404
        >> 1 header 3
        => 1 header 3
        >> 1 body ab
        => 1 body ab
        >> 1 body c
        => 1 body c
        >> 1 basic.publish routing_key=another
        >> 1 header 1
        >> 1 body d
        >> 1 channel.close-ok
        => 1 channel.close-ok
        >> 1 channel.open
        => 1 channel.open
        """,
        passes,
        evaluated,
        stage=Stage.METHOD,
    )


def test_a_delivery_that_the_client_closes_the_channel_on_is_sent_to_its_end():
    play(
        """
        >> 1 basic.consume queue=q consumer_tag=t
        => 1 basic.consume queue=q consumer_tag=t
        << 1 basic.consume-ok consumer_tag=t
        <= 1 basic.consume-ok consumer_tag=t
        << 1 basic.deliver consumer_tag=t delivery_tag=1
        <= 1 basic.deliver consumer_tag=t delivery_tag=1
        << 1 header 3
        <= 1 header 3
        >> 1 channel.close
        => 1 channel.close
        << 1 body abc
        <= 1 body abc
        << 1 basic.deliver consumer_tag=t delivery_tag=2
        << 1 header 0
        << 1 channel.close-ok
        <= 1 channel.close-ok
        """,
        passes,
        "queue.declare",
    )


@pytest.mark.parametrize("stage", [Stage.HEADER, Stage.BODY])
def test_of_a_publish_that_was_not_evaluated_when_the_broker_closed_nothing_is_sent(stage):
    play(
        """
        >> 1 basic.publish routing_key=k
        << 1 channel.close reply_code=404
        >> 1 header 3
        >> 1 body abc
        -- 1
        <= 1 channel.close reply_code=404
        >> 1 channel.close-ok
        => 1 channel.close-ok
        """,
        late_close,
        "basic.publish",
        HELD_CLOSES,
        stage=stage,
    )


@pytest.mark.parametrize("waits_for", [1.0, 0.0])
def test_of_a_publish_that_waited_when_the_broker_closed_nothing_is_sent(waits_for):
    def decide(context):
        if context.command.method.name == HELD_CLOSES:
            return Verdict(command=context.command, delay=waits_for)
        return Verdict(command=context.command, delay=5.0)

    now = "<= 1 channel.close reply_code=404"
    play(
        f"""
        >> 1 basic.publish routing_key=k
        >> 1 header 3
        << 1 channel.close reply_code=404
        {now if not waits_for else ""}
        >> 1 body abc
        {f"-- {waits_for}" if waits_for else ""}
        {now if waits_for else ""}
        >> 1 channel.close-ok
        => 1 channel.close-ok
        """,
        decide,
        "basic.publish",
        HELD_CLOSES,
        stage=Stage.METHOD,
    )


def test_of_a_delivery_that_waited_when_the_client_closed_nothing_is_sent():
    play(
        """
        >> 1 basic.consume queue=q consumer_tag=t
        => 1 basic.consume queue=q consumer_tag=t
        << 1 basic.consume-ok consumer_tag=t
        <= 1 basic.consume-ok consumer_tag=t
        << 1 basic.deliver consumer_tag=t delivery_tag=1
        >> 1 channel.close
        => 1 channel.close
        << 1 header 3
        << 1 body abc
        -- 1
        << 1 channel.close-ok
        <= 1 channel.close-ok
        """,
        lambda context: Verdict(command=context.command, delay=1.0),
        "basic.deliver",
        stage=Stage.METHOD,
    )


def test_what_was_got_on_a_channel_that_the_client_closes_has_its_method():
    play(
        """
        >> 1 basic.get queue=q
        => 1 basic.get queue=q
        >> 1 channel.close
        << 1 basic.get-ok delivery_tag=1
        <= 1 basic.get-ok delivery_tag=1
        << 1 header 3
        <= 1 header 3
        << 1 body abc
        <= 1 body abc
        -- 1
        => 1 channel.close
        << 1 channel.close-ok
        <= 1 channel.close-ok
        """,
        late_close,
        "queue.declare",
        HELD_CLOSES,
    )


def test_the_rest_of_a_publish_goes_on_though_it_is_not_its_turn_when_the_broker_closes():
    evaluator = ScriptedEvaluator(lambda context: Verdict(command=context.command, delay=1.0), ["basic.qos"])
    water = opened(evaluator)
    water.say(*read(">> 1 basic.qos"))
    publishes = [read(line) for line in (">> 1 basic.publish", ">> 1 header 6", ">> 1 body abc", ">> 1 body def")] * 30
    for sender, octets in publishes:
        water.say(sender, octets)
    water.wait(1.0)
    water.say(*read("<< 1 channel.close"))
    heard = water.say(*read(">> 1 channel.close-ok"))[SERVER]  # fails if that comes in the middle of a content
    heard += water.wait(0.0)[SERVER]
    assert heard == read(">> 1 body def")[1] + read(">> 1 channel.close-ok")[1]


@pytest.mark.parametrize("stage", [Stage.HEADER, Stage.BODY])
def test_a_publish_that_is_read_together_with_its_channels_open_is_evaluated_whole(stage):
    def decide(context):
        keys.append(context.command.method.routing_key)
        return Verdict(command=context.command)

    keys = []
    water = opened(ScriptedEvaluator(decide, ["basic.publish"], stage))
    lines = [">> 3 channel.open", ">> 3 basic.publish routing_key=k", ">> 3 header 3", ">> 3 body abc"]
    opens, *content = [read(line)[1] for line in lines]
    heard = [water.say(CLIENT, each)[SERVER] for each in (opens + content[0], *content[1:])]
    assert b"".join(heard) == opens + b"".join(content)
    assert keys == ["k"]


# --- the broker has closed a channel: what the client sends on that number belongs to nothing, or to the next channel


def own_ahead(context):
    """Send a publish of our own ahead of each of the client's; let the end of a channel wait."""
    command = context.command
    if command.method.name != "basic.publish":
        return Verdict(command=command, delay=1.0)
    own = Insertion(SERVER, Command(1, BasicPublish(routing_key="own"), body=b"abc"), is_ahead=True)
    return Verdict(command=command, insertions=(own,))


def test_the_next_channel_numbers_its_confirms_anew_though_the_end_of_the_last_one_had_to_wait():
    confirmed = """
        << 1 basic.nack delivery_tag=1
        << 1 basic.ack delivery_tag=2
        <= 1 basic.ack delivery_tag=1
        """
    play(
        CONFIRMS
        + said("a")
        + said("own", "=>")
        + said("a", "=>")
        + confirmed
        + """
        << 1 channel.close reply_code=404
        <= 1 channel.close reply_code=404
        >> 1 channel.close-ok
        >> 1 channel.open
        -- 1
        => 1 channel.close-ok
        => 1 channel.open
        << 1 channel.open-ok
        <= 1 channel.open-ok
        """
        + CONFIRMS
        + said("b")
        + said("own", "=>")
        + said("b", "=>")
        + confirmed,
        own_ahead,
        "basic.publish",
        "channel.close-ok",
    )


def test_what_the_client_sends_while_the_close_of_the_broker_waits_is_not_evaluated():
    play(
        """
        << 1 channel.close reply_code=404
        >> 1 queue.declare queue=bad
        """
        + said("bad")
        + """
        -- 1
        <= 1 channel.close reply_code=404
        >> 1 channel.close-ok
        => 1 channel.close-ok
        >> 1 channel.open
        => 1 channel.open
        """,
        lambda context: late_close(context) if context.sender is SERVER else refuse(context),
        "basic.publish",
        "queue.declare",
        HELD_CLOSES,
    )


# --- what is dropped without an answer is told from what came before it


def test_a_confirm_kept_back_is_not_made_good_by_a_later_one_though_numbers_differed_only_behind_it():
    def decide(context):
        command = context.command
        if context.sender is SERVER:
            return Verdict(command=None)
        own = Insertion(SERVER, Command(1, BasicPublish(routing_key="own"), body=b"abc"))
        return Verdict(command=command, insertions=(own,))

    play(
        CONFIRMS
        + said("a")
        + said("a", "=>")
        + said("b")
        + said("b", "=>")
        + """
        >> 1 queue.declare queue=q
        => 1 queue.declare queue=q
        """
        + said("own", "=>")
        + """
        << 1 basic.ack delivery_tag=1
        << 1 basic.nack delivery_tag=3 multiple=true
        <= 1 basic.nack delivery_tag=2 multiple=false
        """,
        decide,
        "queue.declare",
        "basic.ack",
        drops_confirms=True,
    )


@pytest.mark.parametrize(
    ("delivers", "arguments"), [("basic.deliver", " consumer_tag=t"), ("basic.get-ok", "")], ids=["deliver", "get-ok"]
)
def test_what_came_before_a_delivery_that_is_dropped_is_acknowledged_with_what_comes_after_it(delivers, arguments):
    play(
        f"""
        >> 1 basic.consume queue=q consumer_tag=t
        => 1 basic.consume queue=q consumer_tag=t
        << 1 basic.consume-ok consumer_tag=t
        <= 1 basic.consume-ok consumer_tag=t
        >> 1 basic.get queue=q
        => 1 basic.get queue=q
        << 1 basic.deliver consumer_tag=t delivery_tag=1
        <= 1 basic.deliver consumer_tag=t delivery_tag=1
        << 1 header 0
        <= 1 header 0
        << 1 {delivers}{arguments} delivery_tag=2 routing_key=bad
        << 1 header 0
        << 1 basic.deliver consumer_tag=t delivery_tag=3
        <= 1 basic.deliver consumer_tag=t delivery_tag=2
        << 1 header 0
        <= 1 header 0
        >> 1 basic.ack delivery_tag=2 multiple=true
        => 1 basic.ack delivery_tag=1 multiple=true
        => 1 basic.ack delivery_tag=3
        """,
        drop(Answer.NOTHING),
        delivers,
        stage=Stage.METHOD,
        reads_unacked=True,
    )


def test_what_was_acknowledged_before_a_recover_is_open_again_after_the_rollback():
    play(
        """
        >> 1 tx.select
        => 1 tx.select
        << 1 tx.select-ok
        <= 1 tx.select-ok
        >> 1 basic.get queue=q
        => 1 basic.get queue=q
        << 1 basic.get-ok delivery_tag=1
        <= 1 basic.get-ok delivery_tag=1
        << 1 header 0
        <= 1 header 0
        >> 1 basic.ack delivery_tag=1
        => 1 basic.ack delivery_tag=1
        >> 1 basic.recover requeue=true
        => 1 basic.recover requeue=true
        << 1 basic.recover-ok
        <= 1 basic.recover-ok
        >> 1 tx.rollback
        => 1 tx.rollback
        << 1 tx.rollback-ok
        <= 1 tx.rollback-ok
        >> 1 basic.ack delivery_tag=1
        => 1 basic.ack delivery_tag=1
        """,
        passes,
        "queue.declare",
        reads_unacked=True,
    )
