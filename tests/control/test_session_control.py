"""One session, or one of its channels, is closed, paused and resumed by an operator."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.amqp091.frame import METHOD, Frame, every_frame
from amqproxy.amqp091.methods import ChannelClose
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.configuration.config import Limits
from amqproxy.control import session_control
from amqproxy.control.request import CloseSession, Pause, Resume
from amqproxy.control.request_error import RequestError
from amqproxy.proxy import watchdog
from amqproxy.proxy.amqp091.pass_through import PassThrough
from amqproxy.proxy.interception import interceptor
from amqproxy.rules.engine.evaluator import RuleSet
from tests.proxy.stage import OPEN, Actor, Stage, staged
from tests.rules.scene import rule
from tests.transcripts.words import octets

PUBLISH = "1: basic.publish, 1: header 5, 1: body 5"
DELIVER = "1: basic.deliver, 1: header 5, 1: body 5"
TAG = 'name = "tag"\naction = "tag"\ntags = ["a"]\nmatch.method = ["basic.publish", "basic.deliver"]'


@pytest.fixture(params=["without rules", "with rules"])
def rules(request: pytest.FixtureRequest) -> RuleSet | None:
    return RuleSet([rule(TAG)]) if request.param == "with rules" else None


@asynccontextmanager
async def opened(rules: RuleSet | None = None, **options: Any) -> AsyncIterator[Stage]:
    async with staged(OPEN, rules=rules, **options) as stage:
        yield stage


async def close(stage: Stage, channel: int | None = 1, text: str = "so be it") -> None:
    session_control.close(stage.session, CloseSession(session=1, channel=channel, text=text))
    await wait_all_tasks_blocked()


async def pause(stage: Stage, channel: int | None = None) -> None:
    session_control.pause(stage.session, Pause(session=1, channel=channel))
    await wait_all_tasks_blocked()


async def resume(stage: Stage, channel: int | None = None) -> None:
    session_control.resume(stage.session, Resume(session=1, channel=channel))
    await wait_all_tasks_blocked()


async def fill(actor: Actor, chunk: bytes) -> None:
    """Send it again and again, until nothing more is taken."""
    sent = 0
    with suppress(BlockingIOError):
        while True:
            sent += actor.socket.send(chunk[sent % len(chunk) :])
            await wait_all_tasks_blocked()


def refused(call: Any, stage: Stage, request: Any) -> str:
    with pytest.raises(RequestError) as found:
        call(stage.session, request)
    return found.value.name


# --- a channel is closed


async def test_a_channel_is_closed_for_both_peers_and_the_rest_goes_on(rules: RuleSet | None) -> None:
    with capture_logs() as log:
        async with opened(rules) as stage:
            await close(stage)
            await stage.play("client: 1: channel.close 406\nbroker: 1: channel.close 200")
    assert "channel 1 closed by an operator: so be it" in [each["event"] for each in log]
    async with opened(rules) as stage:
        await close(stage)
        [to_client] = every_frame(stage.client.look(), 0)
        [to_broker] = every_frame(stage.broker.look(), 0)
        assert to_client.method == ChannelClose(406, "PRECONDITION_FAILED - so be it", 0, 0)
        assert to_broker.method == ChannelClose(200, "so be it", 0, 0)
        assert (to_client.channel, to_broker.channel) == (1, 1)
        await stage.play(
            """
            >> 2: queue.declare
            << 2: queue.declare-ok
            >> 1: channel.close-ok
            broker: nothing
            << 1: channel.close-ok
            client: nothing
            >> 1: channel.open
            << 1: channel.open-ok
            >> 1: basic.publish, 1: header 5, 1: body 5
            """
        )


async def test_what_is_sent_on_it_meanwhile_goes_no_further() -> None:
    async with opened() as stage:
        await close(stage)
        await stage.client.sees()
        await stage.broker.sees()
        await stage.play(
            f"""
            >> {PUBLISH}, 2: queue.declare
            broker: 2: queue.declare
            << {DELIVER}, 2: queue.declare-ok
            client: 2: queue.declare-ok
            """
        )


@pytest.mark.parametrize(("mark", "content"), [(">>", PUBLISH), ("<<", DELIVER)], ids=["publish", "delivery"])
async def test_a_content_under_way_is_completed_first(rules: RuleSet | None, mark: str, content: str) -> None:
    method, header, body = content.split(", ")
    async with opened(rules) as stage:
        sees = stage.broker.sees if mark == ">>" else stage.client.sees
        await stage.play(f"{mark} {method}, {header}")
        await close(stage)
        await stage.play("client: nothing\nbroker: nothing")
        (stage.client if mark == ">>" else stage.broker).perform(f"2: basic.publish, {body}" if mark == ">>" else body)
        seen = await sees()
        assert seen.removeprefix("2: basic.publish, ").startswith(f"{body}, 1: channel.close")


async def test_both_contents_under_way_are_completed_first() -> None:
    async with opened() as stage:
        await stage.play(">> 1: basic.publish\n<< 1: basic.deliver, 1: header 5")
        await close(stage)
        await stage.play(
            """
            >> 1: header 0
            << 1: body 5
            client: 1: body 5, 1: channel.close 406
            broker: 1: channel.close 200
            """
        )


async def test_a_content_under_way_on_another_channel_that_is_closing_is_completed() -> None:
    """RabbitMQ closes the connection with 505 for channel.close-ok in the middle of a content."""
    async with opened() as stage:
        await stage.play(">> 2: basic.publish\n<< 2: channel.close 404")
        await close(stage)
        await stage.client.sees()
        await stage.broker.sees()
        await stage.play(">> 2: header 5\n>> 2: body 5\n>> 2: channel.close-ok")


@pytest.mark.parametrize("mark", [">>", "<<"])
async def test_a_peer_that_has_closed_it_already_is_left_alone(rules: RuleSet | None, mark: str) -> None:
    async with opened(rules) as stage:
        await stage.play(f"{mark} 1: channel.close 200")
        assert refused(session_control.close, stage, CloseSession(session=1, channel=1)) == "no-channel"
        await stage.play(f"{'<<' if mark == '>>' else '>>'} 1: channel.close-ok")


@pytest.mark.parametrize("mark", [">>", "<<"])
async def test_a_peer_that_closes_it_at_the_same_moment(rules: RuleSet | None, mark: str) -> None:
    async with opened(rules) as stage:
        await close(stage)
        await stage.client.sees()
        await stage.broker.sees()
        peer = "client" if mark == ">>" else "broker"
        await stage.play(
            f"""
            {mark} 1: channel.close 200
            {peer}: 1: channel.close-ok
            {mark} 1: channel.close-ok
            {peer}: nothing
            {"<<" if mark == ">>" else ">>"} 1: channel.close-ok
            {peer}: nothing
            >> 1: channel.open
            << 1: channel.open-ok
            """
        )


async def test_the_broker_is_asked_though_the_client_takes_nothing() -> None:
    """A consumer that is stuck: its deliveries are to go back to the queue."""
    async with opened() as stage:
        chunk = octets(DELIVER)
        await fill(stage.broker, chunk)
        assert stage.session.client.transport.is_sending
        while stage.session.legs[SERVER].reader.content_states[1].expects != METHOD:  # if a chunk ended within one
            stage.client.look()
            await wait_all_tasks_blocked()
        await close(stage)
        await stage.play("broker: 1: channel.close 200")


async def test_it_is_refused_where_there_is_no_such_channel() -> None:
    async with staged("") as stage:
        for call, request in [
            (session_control.close, CloseSession(session=1, channel=1)),
            (session_control.pause, Pause(session=1)),
            (session_control.pause, Pause(session=1, channel=1)),
        ]:
            assert refused(call, stage, request) == "not-open"
    async with opened() as stage:
        assert refused(session_control.close, stage, CloseSession(session=1, channel=3)) == "no-channel"
        assert refused(session_control.pause, stage, Pause(session=1, channel=3)) == "no-channel"
        assert refused(session_control.resume, stage, Resume(session=1, channel=1)) == "not-paused"
        assert refused(session_control.resume, stage, Resume(session=1)) == "not-paused"
        assert isinstance(stage.session.traffic.passage, PassThrough)
        await close(stage, None)
        await stage.client.sees()
        assert refused(session_control.close, stage, CloseSession(session=1, channel=1)) == "not-open"


async def test_rules_that_come_later_apply_to_it() -> None:
    """It has been given an interceptor by then, which must announce what those rules hold."""
    async with opened() as stage:
        held: list[int] = []
        stage.session._on_hold = lambda session, number: held.append(number)
        await close(stage)
        await stage.client.sees()
        await stage.broker.sees()
        hold = RuleSet([rule('name = "look"\naction = "hold"\nmatch.method = "basic.publish"')])
        stage.session.apply_rules(hold)
        await stage.play(">> 2: basic.publish, 2: header 0\nbroker: nothing")
        assert held == list(stage.session.traffic.passage.waiting)
        assert len(held) == 1


# --- a connection is paused


async def test_what_a_client_sends_waits_and_what_the_broker_sends_goes_on(rules: RuleSet | None) -> None:
    with capture_logs() as log:
        async with opened(rules) as stage:
            await pause(stage)
            await stage.play(f">> {PUBLISH}, 2: queue.declare\nbroker: heartbeat\n<< {DELIVER}, heartbeat")
            assert stage.session.is_paused
            await pause(stage)
            await resume(stage)
            await stage.play(f"broker: heartbeat, {PUBLISH}, 2: queue.declare")
            assert not stage.session.is_paused
    events = [each["event"] for each in log]
    assert [events.count("paused by an operator"), events.count("resumed by an operator")] == [2, 1]


async def test_no_more_is_read_of_a_paused_client_than_one_chunk() -> None:
    async with opened() as stage:
        await pause(stage)
        chunk = octets("1: basic.publish, 1: header 4000, 1: body 4000") * 10
        await fill(stage.client, chunk)
        assert stage.session.client.transport.received < 2**19
        await stage.broker.sees()
        await resume(stage)
        assert len(stage.broker.look()) > 2**16


async def test_neither_peer_of_a_paused_client_is_missed(
    nursery: trio.Nursery, autojump_clock: MockClock, rules: RuleSet | None
) -> None:
    """The heartbeats of the client wait behind what it has sent; the broker gets ours."""
    limits = Limits()
    async with opened(rules, limits=limits) as stage:
        nursery.start_soon(watchdog.watch, {1: stage.session}, limits)
        await pause(stage)
        for _ in range(40):
            await trio.sleep(30)
            stage.client.perform("heartbeat")
            stage.broker.perform("heartbeat")
        assert not stage.is_over.is_set()
        beats = (await stage.broker.sees()).split(", ")
        assert set(beats) == {"heartbeat"}
        assert 36 <= len(beats) <= 42
        await stage.play(f"client: {', '.join(['heartbeat'] * 40)}")
        await resume(stage)
        await stage.play(">> 2: queue.declare\nbroker: " + ", ".join(["heartbeat"] * 40 + ["2: queue.declare"]))


async def test_a_paused_client_that_hangs_up_is_not_kept(
    nursery: trio.Nursery, autojump_clock: MockClock, rules: RuleSet | None
) -> None:
    limits = Limits()
    async with opened(rules, limits=limits, tcp=True) as stage:
        nursery.start_soon(watchdog.watch, {1: stage.session}, limits)
        await pause(stage)
        stage.client.perform(f"{PUBLISH}, EOF")
        await stage.play("broker: heartbeat")
        await trio.sleep(3)
        await stage.play(f"broker: {PUBLISH}, EOF")
        stage.broker.perform("EOF")
        await stage.is_over.wait()


async def test_a_paused_client_is_drained(autojump_clock: MockClock, rules: RuleSet | None) -> None:
    async with opened(rules) as stage:
        await stage.play(">> 1: basic.publish, 1: header 5")
        await pause(stage)
        await stage.broker.sees()
        stage.client.perform("1: body 5")
        await stage.play("broker: nothing")
        stage.session.drain()
        await stage.play(
            """
            broker: 1: body 5
            client: connection.close 320
            >> connection.close-ok, EOF
            client: EOF
            broker: connection.close 320
            """
        )
        stage.broker.perform("connection.close-ok, EOF")
        await stage.is_over.wait()
        assert stage.end == ("proxy", "320")


async def test_a_paused_client_is_closed(autojump_clock: MockClock) -> None:
    async with opened() as stage:
        await pause(stage)
        stage.client.perform(PUBLISH)
        await stage.broker.sees()
        await close(stage, None)
        await stage.play("client: connection.close 320\nbroker: connection.close 320")
        stage.client.perform("connection.close-ok, EOF")
        stage.broker.perform("connection.close-ok, EOF")
        await stage.is_over.wait()


async def test_the_broker_closes_the_connection_of_a_paused_client() -> None:
    async with opened() as stage:
        await pause(stage)
        await stage.broker.sees()
        await stage.play("<< connection.close 320\n>> connection.close-ok")
        assert not stage.session.is_paused


# --- a channel is paused


async def test_what_a_client_sends_on_a_paused_channel_waits(rules: RuleSet | None) -> None:
    async with opened(rules) as stage:
        await pause(stage, 1)
        assert stage.session.paused_channels == [1]
        assert not stage.session.is_paused
        await stage.play(
            f"""
            >> {PUBLISH}, 1: basic.ack, 2: queue.declare, heartbeat
            broker: 2: queue.declare, heartbeat
            << {DELIVER}, 2: queue.declare-ok
            """
        )
        await resume(stage, 1)
        await stage.play(f"broker: {PUBLISH}, 1: basic.ack\n>> {PUBLISH}")
        assert stage.session.paused_channels == []


async def test_a_content_that_has_begun_goes_on_to_its_end(rules: RuleSet | None) -> None:
    async with opened(rules) as stage:
        await stage.play(">> 1: basic.publish, 1: header 5")
        await pause(stage, 1)
        await stage.play(f">> 1: body 5\n>> {PUBLISH}\nbroker: nothing")
        await resume(stage, 1)
        await stage.play(f"broker: {PUBLISH}")


async def test_what_waits_is_bounded_and_then_the_client_is_not_read(
    monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery, autojump_clock: MockClock
) -> None:
    monkeypatch.setattr(interceptor, "MAX_HELD", 100_000)
    limits = Limits()
    async with opened(limits=limits) as stage:
        nursery.start_soon(watchdog.watch, {1: stage.session}, limits)
        await pause(stage, 1)
        stage.client.perform(", ".join(["1: basic.publish, 1: header 4000, 1: body 4000"] * 30))
        await wait_all_tasks_blocked()
        await stage.play(">> 2: queue.declare\nbroker: nothing")
        for _ in range(10):
            await trio.sleep(30)
            stage.broker.perform("heartbeat")
        assert not stage.is_over.is_set()
        assert set((await stage.broker.sees()).split(", ")) == {"heartbeat"}
        await stage.client.sees()
        await resume(stage, 1)
        seen = (await stage.broker.sees()).split(", ")
        seen.remove("2: queue.declare")
        assert seen == ["1: basic.publish", "1: header 4000", "1: body 4000"] * 30


async def test_the_client_closes_its_paused_channel_when_it_is_resumed(rules: RuleSet | None) -> None:
    async with opened(rules) as stage:
        await pause(stage, 1)
        await stage.play(f">> {PUBLISH}, 1: channel.close 200\nbroker: nothing")
        assert refused(session_control.close, stage, CloseSession(session=1, channel=1)) == "no-channel"
        await resume(stage, 1)
        await stage.play(f"broker: {PUBLISH}, 1: channel.close 200\n<< 1: channel.close-ok\n>> 1: channel.open")
        assert stage.session.paused_channels == []


async def test_the_broker_closes_a_paused_channel(rules: RuleSet | None) -> None:
    async with opened(rules) as stage:
        await pause(stage, 1)
        await stage.play(f">> {PUBLISH}\nbroker: nothing\n<< 1: channel.close 404\n>> 1: channel.close-ok")
        assert stage.session.paused_channels == []
        await stage.play(">> 1: channel.open\n<< 1: channel.open-ok")


async def test_an_operator_closes_a_paused_channel(rules: RuleSet | None) -> None:
    async with opened(rules) as stage:
        await pause(stage, 1)
        await stage.play(f">> {PUBLISH}\nbroker: nothing")
        await close(stage, 1)
        await stage.play("client: 1: channel.close 406\nbroker: 1: channel.close 200")
        assert stage.session.paused_channels == []


async def test_a_client_that_closes_its_connection_has_all_its_channels_resumed(rules: RuleSet | None) -> None:
    async with opened(rules) as stage:
        await pause(stage, 1)
        await pause(stage, 2)
        many = ", ".join([PUBLISH] * 100)
        stage.client.say(octets(many))
        await stage.play(
            f"""
            broker: nothing
            >> connection.close 200
            broker: {many}, connection.close 200
            << connection.close-ok
            """
        )


@pytest.mark.parametrize("ending", ["EOF", "RST"])
async def test_what_waits_of_a_client_that_is_gone_still_goes_to_the_broker(ending: str, rules: RuleSet | None) -> None:
    async with opened(rules, tcp=True) as stage:
        await pause(stage, 1)
        many = ", ".join([PUBLISH] * 100)
        stage.client.say(octets(many))
        await stage.play("broker: nothing")
        stage.client.perform(ending)
        assert (await stage.broker.sees()).startswith(f"{many}, ")


async def test_a_paused_channel_is_drained(autojump_clock: MockClock, rules: RuleSet | None) -> None:
    async with opened(rules) as stage:
        await pause(stage, 1)
        await stage.play(f">> {PUBLISH}\nbroker: nothing")
        stage.session.drain()
        await stage.play(f"broker: {PUBLISH}\nclient: connection.close 320")
        stage.client.perform("connection.close-ok, EOF")
        await stage.broker.sees()
        stage.broker.perform("connection.close-ok, EOF")
        await stage.is_over.wait()


async def test_a_held_command_of_a_paused_channel_is_released_and_what_is_behind_it_waits() -> None:
    hold = RuleSet([rule('name = "look"\naction = "hold"\nmatch.method = "queue.declare"')])
    async with opened(hold) as stage:
        await stage.play(f">> 1: queue.declare, {PUBLISH}\nbroker: nothing")
        await pause(stage, 1)
        [number] = stage.session.traffic.passage.waiting
        stage.session.release(number, None)
        await stage.play("broker: 1: queue.declare")
        await resume(stage, 1)
        await stage.play(f"broker: {PUBLISH}")


# --- what is wrong where rules begin to apply, or the session ends, at an unlucky moment


async def test_what_is_sent_on_a_closing_channel_does_not_go_on_in_part() -> None:
    """Else the broker gets a header without a method, and closes the connection with 505."""
    async with opened() as stage:
        await stage.play("<< 1: channel.close 404")
        stage.session.apply_rules(RuleSet([rule(TAG)]))
        await pause(stage, 2)
        await stage.play(f"""
            >> {PUBLISH}, {PUBLISH}
            broker: nothing
            >> 1: channel.close-ok
            broker: 1: channel.close-ok
        """)


async def test_the_rest_of_what_did_not_go_on_does_not_either_once_the_client_is_to_leave() -> None:
    async with opened(RuleSet([rule(TAG)])) as stage:
        await stage.play("""
            << 1: channel.close 404
            >> 1: basic.publish, 1: header 5
            broker: nothing
        """)
        stage.session.drain()
        await stage.play("""
            client: connection.close 320
            >> 1: body 5
            broker: nothing
        """)


async def test_a_client_that_was_told_to_leave_gets_no_answer_any_more() -> None:
    no = 'name = "no"\naction = "refuse"\nmatch.method = "basic.publish"'
    async with opened(RuleSet([rule(no)])) as stage:
        stage.session.drain()
        await stage.play(f"""
            client: connection.close 320
            >> {PUBLISH}
            client: nothing
            >> connection.close-ok
            broker: 1: channel.close 200, connection.close 320
        """)


async def test_the_broker_gets_no_heartbeat_behind_the_clients_close() -> None:
    async with opened() as stage:
        stage.session.send_heartbeat()
        stage.session.legs[SERVER].connection.receive(CLIENT, Frame(octets("connection.close")))
        await stage.play("broker: nothing")
