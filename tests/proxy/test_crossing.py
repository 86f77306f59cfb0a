"""Verdicts carried out, as transcripts: what both peers say, and what each of them hears."""

from msgspec.structs import replace

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.grammar import CLIENT, SERVER
from amqproxy.amqp091.methods import BasicCancel, BasicDeliver, BasicPublish, ConnectionBlocked, ConnectionUnblocked
from amqproxy.rules.verdict import Answer, Close, Hold, Insertion, Stage, Verdict
from tests.proxy.crossing_transcript import ScriptedJudge, opened, play, read


def passes(seen):
    return Verdict(command=seen.command)


def drop(answer):
    def decide(seen):
        bad = "bad" in (getattr(seen.command.method, "routing_key", ""), getattr(seen.command.method, "queue", ""))
        return Verdict(command=None, answer=answer) if bad else Verdict(command=seen.command)

    return decide


def refuse(seen):
    method = seen.command.method
    if "bad" in (getattr(method, "routing_key", ""), getattr(method, "queue", ""), getattr(method, "exchange", "")):
        return Verdict(command=None, close=Close(Scope.CHANNEL, 403, "ACCESS_REFUSED - no"))
    return Verdict(command=seen.command)


def said(key, arrow=">>", channel=1):
    return f"""
    {arrow} {channel} basic.publish routing_key={key}
    {arrow} {channel} header 3
    {arrow} {channel} body abc
    """


def test_what_passes_is_what_came():
    play(said("good") + said("good", "=>"), passes, "basic.publish")
    play(said("good") + said("good", "=>"), passes, "basic.publish", stage=Stage.METHOD)
    play(said("good") + said("good", "=>"), passes, "basic.publish", stage=Stage.HEADER)


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
    def decide(seen):
        return Verdict(command=None if seen.command.method.delivery_tag == 1 else seen.command)

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
    assert water.crossing.judge.closed == [1]


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
    def decide(seen):
        return Verdict(command=None, close=Close(Scope.CHANNEL, 530, "NOT_ALLOWED - enough"))

    play(
        """
        >> 3 channel.open
        <= 3 channel.close reply_code=530 reply_text='NOT_ALLOWED - enough' failing_class_id=20 failing_method_id=10
        >> 3 channel.close-ok
        """,
        lambda seen: decide(seen) if seen.command.channel == 3 else passes(seen),
        "channel.open",
    )


def test_a_connection_that_is_refused():
    def decide(seen):
        return Verdict(command=None, close=Close(Scope.CONNECTION, 530, "NOT_ALLOWED - no"))

    play(">> 1 basic.publish" + "\n!! 530 NOT_ALLOWED - no", decide, "basic.publish", stage=Stage.METHOD)


# --- what is changed


def rewritten(**changes):
    return lambda seen: Verdict(command=seen.command.altered(method=replace(seen.command.method, **changes)))


def test_a_method_changed_before_its_content_has_come():
    for stage in (Stage.METHOD, Stage.HEADER, Stage.BODY):
        play(said("a") + said("b", "=>"), rewritten(routing_key="b"), "basic.publish", stage=stage)


def test_a_body_that_grew_is_split_to_the_frame_max():
    def decide(seen):
        return Verdict(command=seen.command.altered(body=b"x" * 200_000))

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
    assert water.crossing.refusal is None


# --- what waits


def test_a_delayed_command_holds_up_its_channel_and_no_other():
    def decide(seen):
        return Verdict(command=seen.command, delay=2.0 if seen.command.method.routing_key == "slow" else 0.0)

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
        lambda seen: Verdict(command=seen.command, delay=1.0),
        "basic.publish",
    )


def test_a_held_command_is_refused_in_the_end():
    def decide(seen):
        return Verdict(command=seen.command, hold=Hold("look", 5.0, passes_at_timeout=False))

    play(
        ">> 1 queue.declare queue=q\n>> 1 basic.qos prefetch_count=1\n-- 5"
        + DECLARE_CLOSED.replace("no'", "held by rule '\"'\"'look'\"'\"', and nobody let it go'"),
        decide,
        "queue.declare",
    )


def test_a_held_command_is_let_go():
    def decide(seen):
        return Verdict(command=seen.command, hold=Hold("look", 5.0))

    water = play(">> 1 queue.declare queue=q\n>> 1 basic.qos prefetch_count=1", decide, "queue.declare")
    (number,) = water.crossing.waiting
    water.crossing.release(number, None, water.now)
    assert water.hear()[SERVER].count(b"\xce") == 2
    assert not water.crossing.waiting


# --- commands of our own


def duplicated(seen):
    method = replace(seen.command.method, redelivered=True)
    copy = Command(seen.command.channel, method, seen.command.properties, seen.command.body)
    return Verdict(command=seen.command, insertions=(Insertion(CLIENT, copy),))


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
    def decide(seen):
        return Verdict(command=seen.command, behind=1 if seen.command.body == b"aaa" else 0)

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
        lambda seen: Verdict(command=seen.command, behind=3),
        "basic.deliver",
    )


def test_a_delivery_that_is_kept_back_and_put_back():
    def decide(seen):
        if seen.command.body == b"bad":
            return Verdict(command=None, answer=Answer.REQUEUE)
        return Verdict(command=seen.command)

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
    def decide(seen):
        copy = Command(1, BasicPublish(routing_key="copy"), seen.command.properties, seen.command.body)
        return Verdict(command=seen.command, insertions=(Insertion(SERVER, copy),))

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
    def decide(seen):
        cancel = Command(1, BasicCancel("c", False))
        told = Command(1, BasicCancel("c", True))
        return Verdict(command=seen.command, insertions=(Insertion(SERVER, cancel), Insertion(CLIENT, told)))

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
    def decide(seen):
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
    def decide(seen):
        return Verdict(
            command=seen.command,
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

    def decide(seen):
        return Verdict(command=seen.command, delay=1.0)

    water = opened(ScriptedJudge(decide, ["queue.declare"]))
    lines = [">> 1 basic.publish routing_key=a", ">> 1 header 0", ">> 1 queue.declare queue=q"]
    lines += [">> 1 basic.publish routing_key=b", ">> 1 header 0", ">> 2 basic.publish", ">> 2 header 0"]
    octets = [read(line)[1] for line in lines]
    assert water.say(CLIENT, b"".join(octets))[SERVER] == b"".join(octets[:2] + octets[5:])
    assert water.wait(1.0)[SERVER] == b"".join(octets[2:5])


def test_no_ack_deliveries_need_no_answer():
    play(
        CONSUMES.replace("consumer_tag=c", "consumer_tag=c no_ack=True", 2) + delivered(1),
        lambda seen: Verdict(command=None, answer=Answer.REJECT),
        "basic.deliver",
    )
    assert BasicDeliver.carries_content
