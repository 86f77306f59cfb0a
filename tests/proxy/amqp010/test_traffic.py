"""AMQP 0-10 passes as it is, is counted, and is shown to taps."""

from __future__ import annotations

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.amqp010.commands import ExecutionException, ExecutionSync
from amqproxy.amqp010.controls import (
    ConnectionClose,
    ConnectionHeartbeat,
    ConnectionOpen,
    ConnectionStartOk,
    SessionAttach,
    SessionAttached,
    SessionCommandPoint,
    SessionCompleted,
    SessionDetach,
    SessionDetached,
    SessionRequestTimeout,
    SessionTimeout,
)
from amqproxy.amqp010.frame import encode_frame
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.configuration.config import Limits
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.tap_brake import TapBrake
from amqproxy.pump.pumps import are_available
from amqproxy.rules.engine.evaluator import RuleSet
from tests.example_count import example_count
from tests.proxy import stage as staging
from tests.proxy.amqp010_script import ATTACH, CLOSE, DETACH, FAILURE, LOGIN, MESSAGES, ids, method, transfer
from tests.proxy.amqp010_stage import close, names, play, say
from tests.proxy.recording_tap import Audience
from tests.proxy.stage import staged
from tests.rules.scene import rule

Log = list[structlog.typing.EventDict]
REFUSE = 'action = "refuse"\nmatch.method = "basic.publish"\nmatch.exchange = "secret"\n'
OTHER_SESSION = [
    (CLIENT, method(SessionAttach(b"t"), 2) + method(SessionCommandPoint(0, 0), 2)),
    (SERVER, method(SessionAttached(b"t"), 2) + method(SessionCommandPoint(0, 0), 2)),
]
ALL = [*LOGIN, *ATTACH, *MESSAGES, *DETACH, *CLOSE]


@pytest.fixture(autouse=True, params=[0, 3] if are_available() else [0])  # a plain run has no pump
def frames_a_pump(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions do as they do, also where they are handed over every three frames."""
    monkeypatch.setattr(staging, "frames_a_pump", request.param)


@pytest.mark.parametrize("piece", [1, 13, 1 << 20])
async def test_what_passes_is_the_same_and_is_shown(piece: int, log: Log) -> None:
    tap = Audience()
    async with staged(tap=tap) as stage:
        await play(stage, ALL, piece)
        await close(stage)
        assert stage.end == ("client", "200")
    assert tap.seen[0] == f"c:1-p:2 {HEADER!r}"
    assert tap.seen[1:4] == [f"server {HEADER!r}", "server connection.start", "client connection.start-ok"]
    start = tap.seen.index("client queue.declare #0")
    assert tap.seen[start : start + 13] == [
        "client queue.declare #0",
        *["client message.transfer #1", "client header #1", *["client body #1"] * 3],
        *["client message.transfer #2", "client header #2", "client body #2"],
        *["client message.transfer #3", "client header #3", "client body #3"],
        "server session.completed",
    ]
    assert log[-1]["reason"] == "bye"
    assert {"user": "guest", "product": "tests"}.items() <= log[-1].items()


@pytest.mark.parametrize("piece", [1, 8])
@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (b"AMQP\0\0\x09\1", "the server speaks AMQP 0-9-1, not AMQP 0-10"),
        (b"AMQP\3\1\0\0", "the server speaks AMQP 1.0 (SASL), not AMQP 0-10"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "the server speaks HTTP, not AMQP 0-10"),
    ],
)
async def test_a_server_of_another_protocol_is_named(answer: bytes, named: str, piece: int, log: Log) -> None:
    if not answer.startswith(b"AMQP"):
        piece = len(answer)
    tap = Audience()
    async with staged(tap=tap) as stage:
        stage.client.say(HEADER)
        await wait_all_tasks_blocked()
        for start in range(0, len(answer), piece):
            stage.broker.say(answer[start : start + piece])
            await wait_all_tasks_blocked()
        assert stage.client.look() == answer
        await close(stage)
    warned = [each["event"] for each in log if named in each["event"]]
    assert warned == [
        f"passes unread from here on: the server broke the protocol: 501 framing-error: {named} at byte 0"
    ]
    assert "server 501" in tap.seen


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=example_count(20))
@given(st.lists(st.integers(1, 5000), max_size=20))
async def test_how_bytes_are_cut_does_not_matter(sizes: list[int]) -> None:
    whole, cut = Audience(), Audience()
    for tap, cuts in ((whole, []), (cut, sizes)):
        async with staged(tap=tap) as stage:
            for sender, data in ALL:
                rest = data
                for size in [*cuts, len(data)]:
                    if rest:
                        (stage.client if sender is CLIENT else stage.broker).say(rest[:size])
                        rest = rest[size:]
                        await wait_all_tasks_blocked()
                assert (stage.broker if sender is CLIENT else stage.client).look() == data
            await close(stage)
    assert [each for each in cut.seen if each.startswith("client")] == [
        each for each in whole.seen if each.startswith("client")
    ]


async def test_a_client_that_names_no_virtual_host_is_logged_with_the_default(log: Log) -> None:
    opened, unnamed = (method(ConnectionOpen(each), 0) for each in ("test", None))
    async with staged() as stage:
        await play(stage, [(sender, data.replace(opened, unnamed)) for sender, data in LOGIN])
        await close(stage)
    assert [each["vhost"] for each in log if each["event"] == "connection open"] == ["/"]


async def test_what_is_known_and_counted_of_the_connection() -> None:
    async with staged() as stage:
        await play(stage, [*LOGIN, *ATTACH, *MESSAGES])
        session = stage.session
        assert session.traffic is not None
        assert session.traffic.is_open
        assert (session.known.user, session.known.vhost, session.known.properties) == (
            "guest",
            "test",
            {"product": "tests"},
        )
        assert session.traffic.sessions == {1: b"s"}
        assert session.traffic.legs[SERVER].connection.heartbeat == 60
        assert stage.count("channels") == 1
        assert stage.count("connections_opened_total") == 1
        labels = {"sender": "client", "method": "message.transfer"}
        assert stage.count("frames_total", type="command", **labels) == 3
        assert stage.count("frames_total", type="body", **labels) == 5
        await play(stage, DETACH)
        assert stage.count("channels") == 0
        assert stage.count("channels_opened_total") == 1
        assert stage.count("channel_closes_total", by="client", code="200") == 1
        await play(stage, ATTACH)
        await play(stage, FAILURE)
        assert stage.count("channel_closes_total", by="server", code="404") == 1
        await play(stage, CLOSE)
        await close(stage)


async def test_a_violation_is_shown_and_passes_and_what_follows_too(log: Log) -> None:
    tap = Audience()
    wrong = b"\xff" * 20 + method(ExecutionSync())
    async with staged(tap=tap) as stage:
        await play(stage, [*LOGIN, *ATTACH, (CLIENT, method(ExecutionSync()) + wrong), (CLIENT, wrong)])
        await play(stage, [*MESSAGES[1:2], *CLOSE[:1]])
        assert stage.count("protocol_errors_total", sender="client", code="501") == 1
        await close(stage)
    shown = tap.seen[tap.seen.index("client execution.sync #0") :]
    assert shown[1] == "client 501"
    assert shown.count("client 501") == 1
    assert not [each for each in shown[2:] if each.startswith("client")], "only what the server sends is read"
    assert "server message.reject #0" in shown
    warnings = [each["event"] for each in log if each["log_level"] == "warning"]
    assert warnings[-1] == "connection closed", "whether it was closed is not known"
    assert warnings[0].startswith("passes unread from here on")


async def test_a_control_that_may_not_come_is_shown_and_what_follows_is_read() -> None:
    tap = Audience()
    async with staged(tap=tap) as stage:
        again = (CLIENT, method(ConnectionStartOk(), 0))
        await play(stage, [*LOGIN, again, again, *ATTACH])
        assert stage.count("protocol_errors_total", sender="client", code="501") == 1
        await close(stage)
    assert tap.seen.count("client 501") == 1
    assert tap.seen[-1] == "server session.command-point"


async def test_a_fault_of_ours_ends_the_reading_alone(monkeypatch: pytest.MonkeyPatch, log: Log) -> None:
    async with staged(tap=Audience()) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        assert stage.session.traffic is not None

        def fail(*_: object) -> None:
            raise ValueError("on purpose")

        monkeypatch.setattr(stage.session.traffic, "_on_method", fail)
        stage.client.say(MESSAGES[0][1][:20])
        await wait_all_tasks_blocked()
        stage.client.say(MESSAGES[0][1][20:] + DETACH[0][1])
        await wait_all_tasks_blocked()
        assert stage.broker.look() == MESSAGES[0][1] + DETACH[0][1]
        monkeypatch.undo()
        await play(stage, [MESSAGES[0], MESSAGES[4], *CLOSE])
        await close(stage)
    assert "what the client sends is not read any further" in [each["event"] for each in log]


async def test_a_fault_in_what_one_sends_leaves_the_other_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async with staged(tap=Audience()) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        traffic = stage.session.traffic
        assert traffic is not None

        def fail(sender: Peer, *_: object) -> None:
            if sender is CLIENT:
                raise ValueError("on purpose")

        monkeypatch.setattr(traffic, "_on_method", fail)
        await play(stage, [DETACH[0], (SERVER, method(SessionDetached(b"s", 0)))])
        assert [relay.direction.is_read for relay in traffic._relays] == [False, True]
        await close(stage)


async def test_a_server_that_speaks_another_version_is_not_read() -> None:
    tap = Audience()
    async with staged(tap=tap) as stage:
        await play(stage, [LOGIN[0], (SERVER, b"AMQP\x00\x00\x09\x01\x01")], 3)
        await close(stage)
    assert tap.seen[1:] == ["server b'AMQP\\x00\\x00\\t\\x01'", "server 501"], "once its version has come"


async def test_a_handshake_has_its_time(autojump_clock: MockClock, log: Log) -> None:
    async with staged(limits=Limits(handshake_timeout=7.0)) as stage:
        await play(stage, LOGIN[:3])
        await stage.is_over.wait()
    assert log[-1]["reason"] == "no connection.open-ok within 7 s"


async def test_a_tap_that_comes_later_and_one_that_goes(log: Log) -> None:
    first, second = Audience(), Audience()
    async with staged(tap=first) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        stage.session.apply_tap(None)
        await play(stage, MESSAGES[:2])
        stage.session.apply_tap(second)
        await play(stage, MESSAGES[3:4])
        await close(stage)
    assert first.seen[-1] == "server session.command-point"
    assert second.seen == ["client message.subscribe #4"]


async def test_a_tap_that_fails_is_shown_no_more(log: Log) -> None:
    class Failing(Audience):
        def saw_frames(self, *_: object) -> None:
            raise ValueError("on purpose")

    tap = Failing()
    async with staged(tap=tap) as stage:
        await play(stage, ALL)
        await close(stage)
    assert len(tap.seen) == 2
    assert [each["event"] for each in log if each["log_level"] == "error"] == ["tap failed"]


@pytest.mark.parametrize("piece", [1, 13, 1 << 20])
async def test_rules_hold_from_the_next_command_on_and_go_again(piece: int) -> None:
    """A message that has begun goes on to its end; the one behind it is refused, its session alone is ended."""
    whole = transfer(b"x" * 10_000, "secret")
    async with staged(tap=Audience()) as stage:
        await play(stage, [*LOGIN, *ATTACH, *OTHER_SESSION, *MESSAGES[:3]])
        await say(stage.client, whole[:6000])
        stage.session.apply_rules(RuleSet((rule(REFUSE),)))
        await say(stage.client, whole[6000:], piece)
        stage.broker.look()
        assert bytes(stage.broker.seen).endswith(whole)
        await play(stage, [(CLIENT, transfer(b"y")), (CLIENT, transfer(b"z", channel=2))], piece)
        await say(stage.client, whole, piece)
        assert names(stage.broker.look()) == ["session.detach"]
        exception, detach = FrameReader(frame_max=0).feed(stage.client.look())
        assert exception.method == ExecutionException(403, 6, 4, 1, None, exception.method.description)
        assert detach.method == SessionDetach(b"s")
        for actor in (stage.client, stage.broker):
            actor.say(method(SessionDetached(b"s", 0)))
        await play(stage, [(CLIENT, transfer(b"z", channel=2))], piece)
        assert stage.session.traffic.interceptor is not None
        stage.session.apply_rules(RuleSet(()))
        assert stage.session.traffic.interceptor is None
        await play(stage, [(CLIENT, transfer(b"z", "secret", channel=2)), *ATTACH, (CLIENT, whole), *CLOSE], piece)
        await close(stage)
        assert stage.end == ("client", "200")


@pytest.mark.parametrize("at", range(len(ALL)))
async def test_rules_that_come_at_any_time_and_hold_for_none_change_nothing(at: int) -> None:
    """Nothing of what passes is changed, before or after; the messages are counted once, under the same numbers."""
    tap = Audience()
    delay = 'name = "n"\naction = "fault"\nfault = {kind = "delay", seconds = 9}\nmatch.user = "x"'
    rules = RuleSet((rule(REFUSE), rule(delay)))
    async with staged(tap=tap) as stage:
        for number, (sender, data) in enumerate(ALL):
            half = len(data) // 2
            speaker = stage.client if sender is CLIENT else stage.broker
            await say(speaker, data[:half])
            if number == at:
                stage.session.apply_rules(rules)
            await say(speaker, data[half:])
            listener = stage.broker if sender is CLIENT else stage.client
            listener.look()
            assert listener.seen == speaker.said
            if number == at + 3:
                stage.session.apply_rules(RuleSet(()))
        await close(stage)
        assert stage.count("messages_published_total") == 3
        assert stage.count("messages_delivered_total") == 4
    assert [each for each in tap.seen if each.startswith(("client", "server"))][3:] == (await _seen_without_rules())[3:]


async def _seen_without_rules() -> list[str]:
    tap = Audience()
    async with staged(tap=tap) as stage:
        await play(stage, ALL)
        await close(stage)
    return [each for each in tap.seen if each.startswith(("client", "server"))]


async def test_rules_that_come_know_that_a_session_would_be_kept() -> None:
    async with staged() as stage:
        await play(stage, [*LOGIN, *ATTACH])
        await play(stage, [(CLIENT, method(SessionRequestTimeout(60))), (SERVER, method(SessionTimeout(60)))])
        stage.session.apply_rules(RuleSet((rule(REFUSE),)))
        await say(stage.client, transfer(b"x", "secret"))
        assert stage.broker.look() == method(SessionRequestTimeout(0)) + method(SessionDetach(b"s"))
        stage.session.abort("enough")


async def test_rules_cannot_follow_what_was_not_read() -> None:
    async with staged() as stage:
        await play(stage, [*LOGIN, (CLIENT, b"\xff" * 20)])
        stage.session.apply_rules(RuleSet(()))
        assert not stage.is_over.is_set()
        stage.session.apply_rules(RuleSet((rule(REFUSE),)))
        await wait_all_tasks_blocked()
        stage.client.perform("EOF")
        await stage.is_over.wait()
        assert stage.end == ("proxy", "320")


async def test_an_operator_can_do_nothing_to_a_session_that_is_not_read_any_more() -> None:
    async with staged() as stage:
        await play(stage, [*LOGIN, *ATTACH])
        assert stage.session.has_open_channel(1)
        await play(stage, [(CLIENT, b"\xff" * 20)])
        assert not stage.session.has_open_channel(1)
        await play(stage, [(CLIENT, MESSAGES[0][1])])
        await close(stage)


@pytest.mark.parametrize("piece", [1, 13, 1 << 20])
async def test_an_operator_closes_one_session_and_the_others_go_on(piece: int) -> None:
    async with staged(tap=Audience()) as stage, staged() as beside:
        await play(stage, [*LOGIN, *ATTACH, *OTHER_SESSION, *MESSAGES], piece)
        await play(beside, [*LOGIN, *ATTACH])
        assert [stage.session.has_open_channel(number) for number in (0, 1, 2, 3)] == [False, True, True, False]
        stage.session.close_channel(1, "enough")
        await wait_all_tasks_blocked()
        exception, detach = FrameReader(frame_max=0).feed(stage.client.look())
        assert (exception.method.error_code, exception.method.description) == (406, "enough")
        assert detach.method == SessionDetach(b"s")
        assert stage.broker.look() == method(SessionDetach(b"s"))
        assert not stage.session.has_open_channel(1)
        for actor in (stage.client, stage.broker):
            actor.say(method(SessionDetached(b"s", 0)))
        await play(stage, [(CLIENT, transfer(b"z", channel=2)), *ATTACH, *MESSAGES, *CLOSE], piece)
        assert stage.session.traffic.interceptor is None, "it was needed for the one session"
        await close(stage)
        await play(beside, [*MESSAGES, *CLOSE])
        await close(beside)


async def test_a_paused_client_is_not_read_and_the_broker_gets_heartbeats() -> None:
    beat = method(ConnectionHeartbeat(), 0)
    async with staged() as stage:
        await play(stage, [*LOGIN, *ATTACH])
        assert stage.session.is_open
        stage.session.pause()
        await wait_all_tasks_blocked()
        assert stage.broker.look() == beat
        await say(stage.client, MESSAGES[0][1])
        assert stage.broker.look() == b""
        assert stage.session.is_paused
        assert stage.session.owes_heartbeats
        await play(stage, [MESSAGES[4]])
        stage.session.resume()
        await wait_all_tasks_blocked()
        assert stage.broker.look() == MESSAGES[0][1]
        assert not stage.session.owes_heartbeats
        stage.session.pause()
        await wait_all_tasks_blocked()
        stage.broker.look()
        await play(stage, [(SERVER, CLOSE[0][1]), (CLIENT, CLOSE[1][1])])  # its answer is needed
        await close(stage)


async def test_no_heartbeat_of_ours_comes_within_a_control_of_the_clients() -> None:
    async with staged() as stage:
        await play(stage, [*LOGIN, (CLIENT, encode_frame(14, 0, 0, b"\x01"))])
        stage.session.pause()
        await wait_all_tasks_blocked()
        assert stage.broker.look() == b""
        stage.session.abort("enough")


async def test_what_had_waited_is_shown_where_it_was_the_last_to_need_an_interceptor() -> None:
    tap = Audience()
    async with staged(tap=tap) as stage:
        await play(stage, [*LOGIN, *ATTACH])
        stage.session.pause(1)
        await say(stage.client, transfer(b"z"))
        stage.session.resume(1)
        await wait_all_tasks_blocked()
        assert stage.broker.look() == transfer(b"z")
        assert "client message.transfer #0" in tap.seen
        await play(stage, CLOSE)
        await close(stage)
    assert tap.seen.count("client message.transfer #0") == 1


@pytest.mark.parametrize("piece", [1, 13, 1 << 20])
async def test_a_paused_session_waits_from_its_next_command_on(piece: int) -> None:
    big = transfer(b"x" * 10_000)
    async with staged() as stage:
        await play(stage, [*LOGIN, *ATTACH, *OTHER_SESSION])
        await say(stage.client, big[:5000])
        stage.session.pause(1)
        assert stage.session.paused_channels == [1]
        await say(stage.client, big[5000:] + transfer(b"y") + method(SessionCompleted(ids((0, 0)))), piece)
        stage.broker.look()
        assert bytes(stage.broker.seen).endswith(big)
        await play(stage, [(CLIENT, transfer(b"z", channel=2)), MESSAGES[4]], piece)
        stage.session.resume(1)
        await wait_all_tasks_blocked()
        assert stage.broker.look() == transfer(b"y") + method(SessionCompleted(ids((0, 0))))
        assert stage.session.paused_channels == []
        await play(stage, [(CLIENT, transfer(b"z"))], piece)
        assert stage.session.traffic.interceptor is None
        stage.session.pause(1)
        await say(stage.client, transfer(b"last") + CLOSE[0][1], piece)
        assert stage.broker.look() == transfer(b"last") + CLOSE[0][1]
        await play(stage, CLOSE[1:])
        await close(stage)


async def test_a_brake_holds_it() -> None:
    brake = TapBrake()
    async with staged(brake=brake) as stage:
        await play(stage, LOGIN)
        brake.pull()
        stage.client.say(ATTACH[0][1])
        await wait_all_tasks_blocked()
        assert stage.broker.look() == b""
        brake.release()
        await wait_all_tasks_blocked()
        assert stage.broker.look() == ATTACH[0][1]
        await close(stage)


async def test_a_peer_that_never_reads_holds_up_its_own_sender_alone(autojump_clock: MockClock) -> None:
    big = transfer(b"x" * 50_000)
    async with staged(tap=Audience()) as stage, staged() as beside:
        await play(stage, [*LOGIN, *ATTACH])
        for _ in range(1000):
            await wait_all_tasks_blocked()
            try:
                if stage.client.socket.send(big) < len(big):
                    break
            except BlockingIOError:
                break
        else:
            raise AssertionError("all was read")
        await play(stage, MESSAGES[4:5])  # the other direction
        await play(beside, ALL)
        await close(beside)
        stage.client.reset()
        stage.broker.reset()
        await stage.is_over.wait()


async def test_the_beginning_of_a_frame_is_sent_on_at_the_end() -> None:
    async with staged() as stage:
        await play(stage, LOGIN)
        stage.client.say(transfer(b"x")[:30])
        await wait_all_tasks_blocked()
        stage.client.perform("EOF")
        await wait_all_tasks_blocked()
        assert stage.broker.look() == transfer(b"x")[:30]
        assert await stage.broker.sees() in ("EOF", "nothing")
        stage.broker.perform("EOF")
        await stage.is_over.wait()


async def test_one_that_closes_only_half_is_waited_for_so_long(autojump_clock: MockClock, log: Log) -> None:
    async with staged(limits=Limits(close_timeout=3.0)) as stage:
        await play(stage, LOGIN)
        stage.client.perform("EOF")
        await stage.is_over.wait()
    assert log[-1]["reason"] == "client closed without connection.close"


async def test_a_refused_login() -> None:
    refusal = method(ConnectionClose(320, "authentication failed"), 0)
    async with staged() as stage:
        await play(stage, [*LOGIN[:3], (SERVER, refusal)])
        await close(stage)
        assert stage.count("authentication_failures_total") == 1
        assert stage.end == ("server", "320")
    async with staged() as stage:
        await play(stage, [*LOGIN, (SERVER, refusal)])
        await close(stage)
        assert stage.count("authentication_failures_total") == 0
