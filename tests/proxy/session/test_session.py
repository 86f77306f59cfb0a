"""A session as transcripts; `stage` says how to read them."""

import gc
import socket
import ssl
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
import structlog
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.amqp091.errors import ProtocolError, Scope
from amqproxy.amqp091.frame import BODY, Frame, encode_frame, encode_method
from amqproxy.amqp091.frame_reader import EVERY_METHOD
from amqproxy.amqp091.methods import ConnectionClose, ConnectionStartOk
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.amqp091.wire import Table
from amqproxy.configuration.config import Limits
from amqproxy.configuration.tls_config import ServerTLS
from amqproxy.proxy.leg import QUANTUM_FRAMES, Leg
from amqproxy.proxy.memory_budget import MemoryBudget, MemoryShare
from amqproxy.proxy.session.session import Session
from amqproxy.proxy.session.session_parts import SessionParts
from amqproxy.proxy.session.traffic import Traffic
from amqproxy.proxy.upstream import Unreachable
from amqproxy.pump.pumps import are_available
from amqproxy.rules.access.allow import Allow
from amqproxy.rules.access.refuse import Refuse
from amqproxy.rules.actions import AnyRule
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.matching.match import Match
from amqproxy.rules.observing.hold import Hold
from amqproxy.rules.observing.log import Log
from amqproxy.rules.verdict import Close, Verdict
from amqproxy.sockets.tls import server_context
from amqproxy.sockets.tls_socket import secured
from amqproxy.sockets.transport import SocketTransport, Transport
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.tap import TappedSession
from tests.example_count import example_count
from tests.proxy import stage as staging
from tests.proxy.recording_tap import Audience
from tests.proxy.stage import HANDSHAKE, OPEN, staged
from tests.sockets.certificate_files import Files
from tests.sockets.whole_transport import WholeTransport
from tests.transcripts.words import method, octets

LIMITS = Limits(close_timeout=5.0, handshake_timeout=15.0)
PUBLISH = "1: basic.publish, 1: header 5, 1: body 5"
DELIVER = "1: basic.deliver, 1: header 5, 1: body 5"


RULES = {
    "without rules": None,
    "with a rule that lets all pass": RuleSet([Allow(name="all")]),
    "with a rule that looks at all": RuleSet([Log(name="look", level="debug", text="{method}")]),
}
HANDED_OVER = "handed over every three frames"


@pytest.fixture(autouse=True, params=[*RULES, HANDED_OVER] if are_available() else RULES)  # a plain run has no pump
def rules(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions do as they do, whether rules that change nothing look on or not, and whatever relays."""
    if request.param == HANDED_OVER:
        monkeypatch.setattr(staging, "frames_a_pump", 3)
    monkeypatch.setattr(staging, "standing_rules", RULES.get(request.param))


# ------------------------------------------------------------------------------------------- what passes


each_transport = pytest.mark.parametrize("transport", [SocketTransport, WholeTransport])


@each_transport
async def test_a_whole_conversation(transport: Callable[[socket.socket], Transport], autojump_clock: MockClock) -> None:
    async with staged(OPEN, transport=transport) as stage:
        await stage.play(f"""
            >> {PUBLISH}
            << {DELIVER}
            << 2: basic.return, 2: header 0
            >> 1: channel.close 200
            << 1: channel.close-ok
            >> heartbeat
            << heartbeat
            >> connection.close 200
            << connection.close-ok
            << EOF
        """)
        stage.client.perform("EOF")
        await stage.is_over.wait()
        assert stage.end == ("client", "200")
        assert stage.count("connections_opened_total") == 1
        assert stage.count("channels_opened_total") == 2
        assert stage.count("channel_closes_total", by="client", code="200") == 1


CONVERSATION = [
    (CLIENT, "header"),
    (SERVER, "connection.start"),
    (CLIENT, "connection.start-ok"),
    (SERVER, "connection.tune"),
    (CLIENT, "connection.tune-ok, connection.open, 1: channel.open"),
    (SERVER, "connection.open-ok, 1: channel.open-ok"),
    (CLIENT, f"{PUBLISH}, 1: basic.publish, 1: header 9, 1: body 4, heartbeat, 1: body 5"),
    (SERVER, f"{DELIVER}, heartbeat"),
    (CLIENT, "1: queue.declare, 1: basic.publish, 1: header 70000, 1: body 70000, 1: basic.consume"),
    (SERVER, "1: queue.declare-ok, 1: basic.consume-ok, 1: basic.deliver, 1: header 70000, 1: body 70000"),
    (CLIENT, "1: basic.ack, connection.close 200"),
    (SERVER, "connection.close-ok"),
]


@settings(max_examples=example_count(30), deadline=None)
@given(sizes=st.lists(st.integers(1, 5000) | st.integers(1, 3), min_size=1, max_size=40), is_watched=st.booleans())
def test_octets_out_are_octets_in_however_they_are_cut(sizes: list[int], is_watched: bool) -> None:
    async def converse() -> None:
        at = 0
        async with staged(tap=Audience() if is_watched else None) as stage:
            for sender, what in CONVERSATION:
                said = octets(what)
                actor = stage.client if sender is CLIENT else stage.broker
                while said:
                    size = sizes[at % len(sizes)] if len(said) < 20_000 else 16_384
                    at += 1
                    actor.say(said[:size])
                    said = said[size:]
                    await wait_all_tasks_blocked()
                    stage.client.look()
                    if hasattr(stage, "broker"):
                        stage.broker.look()
            assert stage.broker.seen == stage.client.said
            assert stage.client.seen == stage.broker.said
            assert not stage.is_over.is_set()

    trio.run(converse, clock=MockClock(autojump_threshold=0))


async def test_what_is_wrong_on_its_channel_only_is_for_the_broker_to_answer() -> None:
    async with staged(OPEN) as stage:
        await stage.play("""
            >> 1: tx.commit
            << 1: channel.close 406
            >> 1: channel.close-ok
            >> 1: channel.open
            << 1: channel.open-ok
        """)
        assert stage.count("channel_closes_total", by="server", code="406") == 1


async def test_closes_that_cross(autojump_clock: MockClock) -> None:
    async with staged(OPEN) as stage:
        stage.client.perform("connection.close 200")
        stage.broker.perform("connection.close 320")
        await stage.play("""
            broker: connection.close 200
            client: connection.close 320
            >> connection.close-ok
            << connection.close-ok
            >> EOF
            << EOF
        """)
        await stage.is_over.wait()


async def test_no_limit_agreed_is_our_own_limit() -> None:
    async with staged(limits=Limits(frame_max=8192)) as stage:
        await stage.play("""
            >> header
            << connection.start
            >> connection.start-ok
        """)
        stage.broker.say(method("connection.tune", frame_max=0))
        await stage.play("client: connection.tune")
        stage.client.say(method("connection.tune-ok", frame_max=0) + method("connection.open"))
        await stage.play("""
            broker: connection.tune-ok, connection.open
            << connection.open-ok
            >> 1: channel.open
            << 1: channel.open-ok
            >> 1: basic.publish, 1: header 8192, 1: body 8192
            >> 1: basic.publish, 1: header 8193, 1: body 8193
            broker: 1: basic.publish, 1: header 8193, connection.close 320
            client: connection.close 501
        """)


async def test_more_agreed_than_our_own_limit_is_our_own_limit() -> None:
    async with staged(HANDSHAKE, limits=Limits(frame_max=8192)) as stage:
        await stage.play("""
            >> 1: channel.open
            << 1: channel.open-ok
            << 1: basic.deliver, 1: header 8193, 1: body 8193
            client: 1: basic.deliver, 1: header 8193, connection.close 320
            broker: connection.close 501
        """)


# ------------------------------------------------------------------------------------------ the beginning


@pytest.mark.parametrize(
    ("said", "protocol"),
    [
        (b"AMQP\0\2\0\0", "AMQP 0.2.0.0"),
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
        (b"\x16\x03\x01\0\xc4\1\0\0", "TLS"),
        (b"nonsense", "unknown"),
    ],
)
async def test_a_stranger_is_told_what_we_speak(
    said: bytes, protocol: str, log: list[structlog.typing.EventDict], autojump_clock: MockClock
) -> None:
    async with staged() as stage:
        stage.client.say(said)
        await stage.play("""
            client: header, EOF
            >> EOF
            client: nothing
        """)
        await stage.is_over.wait()
        assert not hasattr(stage, "broker")
        assert stage.count("connections_refused_total", reason="protocol") == 1
        assert log[-1]["reason"] == f"the client speaks {protocol}, not AMQP 0-9-1"


async def test_a_stranger_who_stays_is_hung_up_on(autojump_clock: MockClock) -> None:
    async with staged(limits=LIMITS) as stage:
        stage.client.say(b"nonsense")
        await stage.is_over.wait()
        assert trio.current_time() == pytest.approx(5.0)


async def test_a_tls_client_that_does_not_shake_hands(
    log: list[structlog.typing.EventDict], autojump_clock: MockClock, tmp_path: Path
) -> None:
    files = Files(tmp_path)
    context = server_context(ServerTLS(certificate=files.server, key=files.server_key))

    def over_tls(end: socket.socket) -> Transport:
        return SocketTransport(secured(end, context, server_side=True))

    hello_from, to = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(to, hello_from, server_hostname="localhost").do_handshake()
    for said, level in ((b"", "debug"), (hello_from.read(), "warning")):
        async with staged(transport=over_tls, limits=LIMITS) as stage:
            stage.client.say(said)
            began = trio.current_time()
            await stage.is_over.wait()
            assert trio.current_time() - began == pytest.approx(5.0)
            assert (log[-1]["log_level"], log[-1]["reason"]) == (level, "no TLS handshake within 5 s")
    async with staged(transport=over_tls, limits=LIMITS) as stage:
        stage.client.say(octets("header"))
        await stage.is_over.wait()
        assert log[-1]["reason"].startswith("TLS handshake failed: ")
    async with staged(transport=over_tls, limits=LIMITS) as stage:
        stage.client.perform("EOF")
        await stage.is_over.wait()
        reason = "closed before the end of the TLS handshake"
        assert (log[-1]["log_level"], log[-1]["reason"]) == ("debug", reason)


async def test_a_header_octet_by_octet() -> None:
    async with staged() as stage:
        for octet in octets("header"):
            await stage.play("client: nothing")
            stage.client.say(bytes([octet]))
        await stage.play("""
            broker: header
            << connection.start
        """)


@pytest.mark.parametrize(("said", "level"), [(b"", "debug"), (b"AM", "warning")])
async def test_gone_before_a_header(said: bytes, level: str, log: list[structlog.typing.EventDict]) -> None:
    async with staged() as stage:
        stage.client.say(said)
        await stage.play("""
            >> EOF
            client: EOF
        """)
        assert (log[-1]["log_level"], log[-1]["reason"]) == (level, "closed before a protocol header")
        assert stage.end == ("client", "none")


async def test_a_client_that_says_nothing(log: list[structlog.typing.EventDict], autojump_clock: MockClock) -> None:
    async with staged(limits=LIMITS) as stage:
        await stage.is_over.wait()
        assert trio.current_time() == pytest.approx(15.0)
        assert log[-1]["log_level"] == "debug"
        await stage.play("client: EOF")
        assert stage.end == ("proxy", "none")


async def test_a_broker_that_says_nothing(log: list[structlog.typing.EventDict], autojump_clock: MockClock) -> None:
    async with staged(">> header", limits=LIMITS) as stage:
        await stage.is_over.wait()
        await stage.play("""
            client: EOF
            broker: EOF
        """)
        assert log[-1]["reason"] == "no connection.open-ok within 15 s"


async def test_a_broker_that_cannot_be_had(log: list[structlog.typing.EventDict]) -> None:
    async def dial() -> Transport:
        raise Unreachable("refused", "broker:5672 refused the connection")

    async with staged(dial=dial) as stage:
        await stage.play("""
            >> header
            client: EOF
        """)
        assert stage.count("upstream_failures_total", reason="refused") == 1
        assert log[-1]["reason"] == "upstream broker:5672 refused the connection"


@pytest.mark.parametrize("how", ["EOF", "RST"])
async def test_a_broker_that_hangs_up_in_the_handshake(how: str, autojump_clock: MockClock) -> None:
    async with staged(tcp=True) as stage:
        await stage.play(f"""
            >> header
            << connection.start
            >> connection.start-ok
            << {how}
            client: EOF
            >> EOF
            client: nothing
        """)
        await stage.is_over.wait()
        assert stage.end == ("server", "none")
        assert stage.count("upstream_failures_total", reason="lost") == 0


async def test_what_is_malformed_in_the_handshake_ends_in_a_clean_close(autojump_clock: MockClock) -> None:
    async with staged(">> header", limits=LIMITS) as stage:
        stage.broker.say(b"nonsense")
        await stage.play("""
            client: EOF
            broker: EOF
        """)
        assert stage.end == ("proxy", "501")
        assert stage.count("protocol_errors_total", sender="server", code="501") == 1


async def test_each_line_says_who_the_client_is(log: list[structlog.typing.EventDict]) -> None:
    async with staged("""
        >> header
        << connection.start
    """) as stage:
        said = Table({"product": "py-amqp", "connection_name": "orders"})
        stage.client.say(method("connection.start-ok", response=b"\0alice\0secret", client_properties=said))
        await stage.play("broker: connection.start-ok")
        await stage.play(HANDSHAKE.partition(">> connection.start-ok")[2])
        await stage.play(">> connection.close 0")
        stage.broker.perform("connection.close-ok, EOF")
        stage.client.perform("EOF")
        await stage.is_over.wait()
    lines = [each for each in log if each["event"] in ("connection open", "connection closed")]
    assert [each["log_level"] for each in lines] == ["info", "info"]
    assert {(each["user"], each["name"], each["product"]) for each in lines} == {("alice", "orders", "py-amqp")}


# ------------------------------------------------------------------------------------- a client that goes


async def test_a_client_that_closes_and_does_not_wait(autojump_clock: MockClock) -> None:
    async with staged(OPEN) as stage:
        stage.client.perform("connection.close 200, EOF")
        await stage.play("""
            broker: connection.close 200, EOF
            << connection.close-ok
            << EOF
        """)
        await stage.is_over.wait()
        assert stage.end == ("client", "200")


@each_transport
async def test_parting_from_either_kind(transport: Callable[[socket.socket], Transport]) -> None:
    async with staged(OPEN, transport=transport) as stage, staged(OPEN, transport=transport) as drained:
        await stage.play("""
            << EOF
            client: connection.close 320
            >> connection.close-ok
            client: EOF
        """)
        drained.session.drain()
        await drained.play(f"""
            client: connection.close 320
            >> {PUBLISH}
            >> connection.close-ok
            client: EOF
            broker: connection.close 320
            << connection.close-ok
            broker: EOF
        """)


async def test_a_client_that_closes_without_a_word(autojump_clock: MockClock) -> None:
    async with staged(OPEN) as stage:
        await stage.play("""
            >> EOF
            << 1: basic.ack
            << EOF
        """)
        await stage.is_over.wait()
        assert stage.end == ("client", "none")
        assert stage.count("upstream_failures_total", reason="lost") == 0


async def test_a_client_that_closes_within_a_frame() -> None:
    async with staged(OPEN) as stage:
        stage.client.say(octets("1: basic.publish")[:10])
        await stage.play("""
            broker: nothing
            >> EOF
            broker: 10 bytes of a frame, EOF
        """)


async def test_a_client_that_is_reset(autojump_clock: MockClock) -> None:
    async with staged(OPEN, tcp=True) as stage:
        await stage.play("""
            >> RST
            broker: EOF
            << EOF
            broker: nothing
        """)
        await stage.is_over.wait()
        assert stage.end == ("client", "none")


async def test_half_closed_is_not_for_ever(autojump_clock: MockClock) -> None:
    async with staged(OPEN, limits=LIMITS) as stage:
        await stage.play(">> EOF")
        await stage.is_over.wait()
        assert trio.current_time() == pytest.approx(5.0)


# ------------------------------------------------------------------------------------- a broker that goes


@pytest.mark.parametrize("how", ["EOF", "RST"])
async def test_a_broker_that_is_lost(
    how: str, log: list[structlog.typing.EventDict], autojump_clock: MockClock
) -> None:
    async with staged(OPEN, tcp=True, limits=LIMITS) as stage:
        stage.broker.say(octets("1: basic.deliver")[:10])
        await stage.play(f"""
            << {how}
            client: connection.close 320
            >> connection.close-ok
            client: EOF
        """)
        await stage.is_over.wait()
        assert stage.end == ("server", "none")
        assert stage.count("upstream_failures_total", reason="lost") == 1
        assert log[-1]["reason"].startswith("upstream ")


async def test_a_lost_broker_and_a_client_that_does_not_answer(autojump_clock: MockClock) -> None:
    async with staged(OPEN, limits=LIMITS) as stage:
        await stage.play("""
            << EOF
            client: connection.close 320
            >> heartbeat
            client: nothing
        """)
        await stage.is_over.wait()
        assert trio.current_time() == pytest.approx(5.0)


async def test_a_broker_that_closes_and_goes_while_the_client_talks_on(autojump_clock: MockClock) -> None:
    """What the client has not read yet is not taken from it by what we have not read."""
    async with staged(OPEN, tcp=True) as stage:
        await stage.play("<< connection.close 320")
        stage.broker.socket.close()
        await stage.play(f"""
            >> {PUBLISH}
            client: EOF
            >> {PUBLISH}
            client: nothing
            >> connection.close-ok
            client: nothing
        """)
        await stage.is_over.wait()
        assert stage.end == ("server", "320")
        assert stage.count("upstream_failures_total", reason="lost") == 0


async def test_a_broker_that_takes_no_more_but_stays(
    log: list[structlog.typing.EventDict], autojump_clock: MockClock
) -> None:
    async with staged(OPEN, limits=LIMITS) as stage:
        stage.broker.socket.shutdown(socket.SHUT_RD)
        await stage.play(f"""
            >> {PUBLISH}
            client: nothing
        """)
        await stage.is_over.wait()
        assert log[-1]["reason"] == "upstream takes no more"
        await stage.play("client: connection.close 320, EOF")


async def test_what_a_broker_says_last_arrives_though_it_takes_no_more() -> None:
    async with staged(OPEN) as stage:
        stage.broker.socket.shutdown(socket.SHUT_RD)
        await stage.play(f"""
            >> {PUBLISH}
            client: nothing
            << connection.close 541
            << EOF
            >> connection.close-ok
            broker: EOF
        """)
        assert stage.end == ("server", "541")


# ---------------------------------------------------------------------------------------- what is malformed


async def test_a_client_that_breaks_the_framing() -> None:
    async with staged(OPEN) as stage:
        stage.client.say(octets(PUBLISH) + octets(f"1: queue.declare, {PUBLISH}")[:-1] + b"\0" + octets("heartbeat"))
        await stage.play(f"""
            broker: {PUBLISH}, 1: queue.declare, 1: basic.publish, 1: header 5, connection.close 320
            client: connection.close 501
            << connection.close-ok
            broker: EOF
            client: nothing
            >> EOF
            client: EOF
        """)
        assert stage.end == ("proxy", "501")
        assert stage.count("protocol_errors_total", sender="client", code="501") == 1


async def test_a_broker_that_breaks_the_framing() -> None:
    async with staged(OPEN) as stage:
        stage.broker.say(octets(DELIVER) + b"\x09" + octets("heartbeat")[1:])
        await stage.play(f"""
            client: {DELIVER}, connection.close 320
            broker: connection.close 501
            >> connection.close-ok
            client: EOF
        """)
        assert stage.count("protocol_errors_total", sender="server", code="501") == 1


@pytest.mark.parametrize(
    ("said", "passed", "code"),
    [
        (f"{PUBLISH}, 3: basic.publish, 3: header 0", PUBLISH, 504),
        (f"{PUBLISH}, basic.publish", PUBLISH, 504),
        (f"{PUBLISH}, 1: channel.open, 2: channel.close 200", PUBLISH, 504),
        (f"{PUBLISH}, connection.open-ok", PUBLISH, 504),
        ("1: basic.publish, 1: basic.publish", "1: basic.publish", 505),
        ("1: body 5", "nothing", 505),
    ],
)
async def test_a_client_that_breaks_the_rules(said: str, passed: str, code: int) -> None:
    async with staged(OPEN) as stage:
        await stage.play(f"""
            >> {said}
            broker: {passed + ", " if passed != "nothing" else ""}connection.close 320
            client: connection.close {code}
            >> connection.close-ok
            client: EOF
            << connection.close-ok
            broker: EOF
        """)
        assert stage.end == ("proxy", str(code))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("1: body 5", b"UNEXPECTED_FRAME - expected method frame, got non method frame instead\0\0\0\0"),
        ("3: basic.publish", b"CHANNEL_ERROR - expected 'channel.open'\0\x3c\0\x28"),
        ("basic.qos", b"CHANNEL_ERROR - unexpected method in connection state running\0\x3c\0\x0a"),
        ("1: basic.qos-ok", b"COMMAND_INVALID - unimplemented method\0\x3c\0\x0b"),
    ],
)
async def test_a_client_is_told_in_rabbitmq_s_words(
    said: str, told: bytes, log: list[structlog.typing.EventDict], autojump_clock: MockClock
) -> None:
    async with staged(OPEN, limits=LIMITS) as stage:
        stage.client.perform(said)
        await wait_all_tasks_blocked()
        assert told in stage.client.look()
        await stage.is_over.wait()
        assert "the client broke the protocol: 50" in log[-1]["reason"]  # and, in our own words, what and where


@pytest.mark.parametrize(
    ("answer", "named", "told"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "the server speaks HTTP, not AMQP 0-9-1", b""),
        (b"\x15\x03\x03\x00\x02\x02\x46", "the server speaks TLS, not AMQP 0-9-1", b""),
        (b"AMQP\x00\x01\x00\x00", "the server speaks AMQP 1.0, not AMQP 0-9-1", b"AMQP\x00\x01\x00\x00"),
        (b"AMQP\x01\x01\x00\x0a", "the server speaks AMQP 0-10, not AMQP 0-9-1", b"AMQP\x01\x01\x00\x0a"),
        (b"220 mail ESMTP\r\n", "the server does not speak AMQP 0-9-1: it begins with b'220 mail ESMTP", b""),
    ],
)
async def test_a_server_of_another_protocol_is_named_and_its_header_reaches_the_client(
    answer: bytes, named: str, told: bytes, log: list[structlog.typing.EventDict], autojump_clock: MockClock
) -> None:
    async with staged(limits=LIMITS) as stage:
        stage.client.say(b"AMQP\x00\x00\x09\x01")
        await wait_all_tasks_blocked()
        stage.broker.say(answer)
        await wait_all_tasks_blocked()
        assert stage.client.look() == told
        await stage.is_over.wait()
        assert f"the server broke the protocol: 501 FRAME_ERROR: {named}" in log[-1]["reason"]


async def test_a_culprit_that_beats_and_closes_while_it_is_told() -> None:
    """It is not listened to any more, but for its end; and it is answered when its close crosses ours."""
    async with staged(OPEN, tap=Audience()) as stage:
        await stage.play(f"""
            >> 1: basic.publish, 1: basic.publish
            broker: 1: basic.publish, connection.close 320
            client: connection.close 505
            << heartbeat, {DELIVER}, connection.close 200
            broker: connection.close-ok
            << connection.close-ok
            broker: EOF
        """)


async def test_both_break_the_rules_at_once() -> None:
    async with staged(OPEN) as stage:
        stage.client.perform("1: body 5")
        stage.broker.perform("1: body 5")
        await wait_all_tasks_blocked()
        seen = sorted([await stage.client.sees(), await stage.broker.sees()])
        assert seen == ["connection.close 320", "connection.close 505"]


async def test_what_is_shown_to_a_tap() -> None:
    tap = Audience()
    async with staged(OPEN, tap=tap) as stage:
        shown = len(tap.seen)
        await stage.play(f"""
            >> {PUBLISH}, 1: tx.commit, heartbeat, 9: tx.commit, heartbeat
            broker: {PUBLISH}, 1: tx.commit, heartbeat, connection.close 320
        """)
        assert tap.seen[shown : shown + 6] == [
            *["client basic.publish", "client 2", "client 3", "client tx.commit", "client 8"],
            "client 504",
        ]
        assert sorted(tap.seen[shown + 6 :]) == ["client connection.close", "server connection.close"]
        assert tap.seen[0] == f"c:1-p:2 {octets('header')!r}"


async def test_a_tap_is_shown_on_which_leg_the_proxy_itself_closes() -> None:
    class Legs(Audience):
        def saw_frames(
            self, session: TappedSession, sender: Peer, frames: Sequence[Frame], note: Note = NOTHING
        ) -> None:
            self.seen += [f"{note.leg}: {sender} {frame.method.name}" for frame in frames if note.leg]

        def saw_violation(self, session: TappedSession, sender: Peer, error: ProtocolError) -> None:
            self.seen.append(f"{sender} {error.received!r}")

    tap = Legs()
    async with staged(OPEN, tap=tap) as stage:
        stage.client.perform("9: tx.commit")
        assert await stage.broker.sees() == "connection.close 320"
        stage.broker.perform("connection.close-ok")
        assert await stage.client.sees() == "connection.close 504"
        stage.client.perform("connection.close-ok")
        assert await stage.client.sees() == "EOF"
    assert [each for each in tap.seen if each.startswith("client:")] == [
        "client: server connection.close",
        "client: client connection.close-ok",
    ]
    assert [each for each in tap.seen if each.startswith("upstream:")] == [
        "upstream: client connection.close",
        "upstream: server connection.close-ok",
    ]
    assert f"client {octets('9: tx.commit')!r}" in tap.seen


async def test_a_tap_is_shown_how_a_drained_client_answers() -> None:
    tap = Audience()
    async with staged(OPEN, tap=tap) as stage:
        shown = len(tap.seen)
        stage.session.drain()
        assert await stage.client.sees() == "connection.close 320"
        stage.client.perform("connection.close-ok")
        assert await stage.client.sees() == "EOF"
        assert tap.seen[shown : shown + 3] == [
            "server connection.close",
            "client connection.close-ok",
            "client connection.close",
        ]


async def test_a_tap_that_fails_is_no_trouble(log: list[structlog.typing.EventDict]) -> None:
    class Failing(Audience):
        def saw_frames(
            self, session: TappedSession, sender: Peer, frames: Sequence[Frame], note: Note = NOTHING
        ) -> None:
            raise ZeroDivisionError

    async with staged(OPEN, tap=Failing()) as stage:
        await stage.play(f"""
            >> {PUBLISH}
            << {DELIVER}
        """)
        assert [event["event"] for event in log if event["log_level"] == "error"] == ["tap failed"]


async def test_a_failure_of_ours_is_told_to_both(
    monkeypatch: pytest.MonkeyPatch, log: list[structlog.typing.EventDict]
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    async with staged(OPEN) as stage, staged(OPEN) as other:
        monkeypatch.setattr(stage.session._report, "note_channels", fail)
        await stage.play("""
            >> 1: tx.select
            broker: connection.close 541
            client: connection.close 541
        """)
        monkeypatch.undo()
        await stage.play("""
            << connection.close-ok
            broker: EOF
            >> connection.close-ok
            client: EOF
        """)
        assert stage.end == ("proxy", "541")
        (line,) = [event for event in log if event["log_level"] == "error"]
        assert line["event"] == "session failed"
        assert line["reason"].startswith("ZeroDivisionError")
        assert "exc_info" not in line
        await other.play(f">> {PUBLISH}")


# ------------------------------------------------------------------------------- readers that do not read


async def test_a_reader_that_never_reads_stops_its_writer_only() -> None:
    async with staged(OPEN) as stage:
        chunk = octets("1: basic.publish, 1: header 100000, 1: body 100000") * 4
        sent = 0
        with suppress(BlockingIOError):
            while True:
                at = sent % len(chunk)
                sent += stage.client.socket.send(chunk[at : at + 65536])
                await wait_all_tasks_blocked()
        held = sent - stage.session.client.transport.received
        assert stage.session.client.transport.received < 2_000_000  # what two sockets hold, and a few chunks
        assert held > 0
        assert not stage.session.client.transport.is_listening
        await stage.play(f"<< {DELIVER}")
        await stage.broker.sees()  # once it reads, all arrives but for the frame that is not whole yet
        assert sent - 110_000 < len(stage.broker.seen)


async def test_what_waits_for_a_slow_reader_is_not_torn_by_the_close(autojump_clock: MockClock) -> None:
    async with staged(OPEN, limits=LIMITS) as stage:
        body = octets("1: basic.deliver, 1: header 100000, 1: body 100000")
        said = body * 20
        sent = 0
        with suppress(BlockingIOError):
            while sent < len(said):
                sent += stage.broker.socket.send(said[sent : sent + 65536])
                await wait_all_tasks_blocked()
        stage.broker.reset()
        stage.client.say(octets("1: body 5"))  # which is not allowed, and so the relay is cut off
        seen = await stage.client.sees()
        *delivered, close = seen.split(", ")
        assert close in ("connection.close 505", "connection.close 320")
        whole = ["1: basic.deliver", "1: header 100000", "1: body 100000"]
        assert delivered == (whole * 20)[: len(delivered)]


# ------------------------------------------------------------------------------------------------ draining


async def test_an_idle_client_is_asked_to_go() -> None:
    async with staged(OPEN) as stage:
        stage.session.drain()
        await stage.play(f"""
            client: connection.close 320
            broker: nothing
            >> {PUBLISH}, 2: basic.ack
            << {DELIVER}, heartbeat
            client: nothing
            >> connection.close-ok
            broker: connection.close 320
            client: EOF
            << connection.close-ok
            broker: EOF
        """)
        await stage.is_over.wait()
        assert stage.end == ("proxy", "320")


async def test_octets_that_come_as_the_drain_begins_still_pass() -> None:
    """Whichever task runs first: the one that reads them, or the one that tells the client to go."""
    for _ in range(20):
        async with staged(OPEN) as stage:
            stage.client.perform(PUBLISH)
            stage.session.drain()
            await stage.play(f"""
                broker: {PUBLISH}
                client: connection.close 320
                >> connection.close-ok
                broker: connection.close 320
            """)


async def test_a_publish_under_way_is_finished() -> None:
    async with staged(OPEN) as stage:
        await stage.play("""
            >> 1: confirm.select
            << 1: confirm.select-ok
            >> 1: basic.publish, 1: header 10, 1: body 3
        """)
        stage.session.drain()
        await stage.play("""
            client: nothing
            >> 1: body 3
            << 1: basic.ack
            >> 2: basic.publish, 2: header 10, 1: body 4
            broker: 2: basic.publish, 2: header 10, 1: body 4
            client: connection.close 320
            >> 2: body 10
            >> connection.close-ok
            broker: connection.close 320
        """)


async def test_a_delivery_under_way_is_finished_and_no_other_begun() -> None:
    async with staged(OPEN) as stage:
        await stage.play("<< 1: basic.deliver, 1: header 10, 1: body 3")
        stage.session.drain()
        await stage.play(f"""
            client: nothing
            << 2: basic.deliver, 2: header 5, 1: body 3, 2: body 5
            client: 1: body 3
            << 1: body 4, {DELIVER}, 1: basic.deliver, 1: header 5
            client: 1: body 4, connection.close 320
            << 1: body 5
            client: nothing
            >> connection.close-ok
            broker: connection.close 320
        """)


async def test_a_flood_does_not_put_off_the_end() -> None:
    """Of a channel on which a content always is under way, only the first is waited for."""
    async with staged(OPEN) as stage:
        await stage.play("""
            << 1: basic.deliver, 1: header 10, 1: body 3
            >> 1: basic.publish, 1: header 10, 1: body 3
        """)
        stage.session.drain()
        await stage.play(f"""
            >> 1: body 7, {PUBLISH}, 2: basic.publish, 1: basic.publish, 1: header 10
            << 1: body 7, {DELIVER}, 1: basic.deliver, 1: header 10
            client: 1: body 7, connection.close 320
        """)


async def test_no_confirm_overtakes_a_return() -> None:
    async with staged(OPEN) as stage:
        await stage.play("""
            >> 1: confirm.select
            << 1: confirm.select-ok
            >> 2: basic.publish, 2: header 10
        """)
        stage.session.drain()
        await stage.play("""
            << 1: basic.ack
            << 1: basic.return, 1: header 0, 1: basic.ack
            client: nothing
            << 2: channel.flow, heartbeat
        """)


async def test_a_client_that_never_answers(autojump_clock: MockClock) -> None:
    async with staged(OPEN, limits=LIMITS) as stage:
        stage.session.drain()
        await stage.play("client: connection.close 320")
        await trio.sleep(5.1)
        await stage.play("""
            broker: connection.close 320
            << connection.close-ok
            broker: EOF
            client: EOF
        """)


async def test_a_drain_that_crosses_the_client_s_own_close() -> None:
    async with staged(OPEN) as stage:
        stage.client.perform("1: basic.ack, connection.close 200")
        stage.session.drain()
        await stage.play("""
            client: connection.close 320, connection.close-ok
            broker: 1: basic.ack
            >> connection.close-ok
            broker: connection.close 320
            client: EOF
        """)


class _AfterEachTask(trio.abc.Instrument):
    """Calls a function each time that a task has ended, before any other task runs."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def task_exited(self, task: trio.lowlevel.Task) -> None:
        self._call()


@pytest.mark.parametrize("do", [Session.drain, Session.send_heartbeat])
async def test_what_is_asked_of_a_session_as_its_last_relay_ends(
    do: Callable[[Session], None], log: list[structlog.typing.EventDict]
) -> None:
    """It is ending already, as it would without."""
    async with staged(OPEN) as stage:
        await stage.play(">> EOF")
        after_each_task = _AfterEachTask(lambda: do(stage.session))
        trio.lowlevel.add_instrument(after_each_task)
        try:
            await stage.play("<< EOF")
            await stage.is_over.wait()
        finally:
            trio.lowlevel.remove_instrument(after_each_task)
        assert stage.end == ("client", "none")
    assert "session failed" not in [each["event"] for each in log]


async def test_a_drain_that_crosses_the_broker_s_own_close() -> None:
    async with staged(OPEN) as stage:
        stage.broker.perform("connection.close 320")
        stage.session.drain()
        await stage.play("""
            client: connection.close 320
            broker: nothing
            >> connection.close-ok
            client: EOF
            broker: connection.close-ok, EOF
        """)


async def test_a_close_under_way_is_finished(autojump_clock: MockClock) -> None:
    async with staged(OPEN, limits=LIMITS) as stage:
        await stage.play(">> connection.close 200")
        stage.session.drain()
        await stage.play("""
            << connection.close-ok
            << EOF
            >> EOF
        """)
        assert stage.end == ("client", "200")
        await stage.is_over.wait()


async def test_a_close_under_way_is_not_waited_for_for_ever(autojump_clock: MockClock) -> None:
    async with staged(OPEN, limits=LIMITS) as stage:
        await stage.play(">> connection.close 200")
        stage.session.drain()
        await stage.is_over.wait()
        assert trio.current_time() == pytest.approx(5.0)


@pytest.mark.parametrize("script", ["", ">> header", HANDSHAKE.rpartition("<<")[0].rpartition("<<")[0]])
async def test_a_handshake_is_just_dropped(script: str) -> None:
    async with staged(script) as stage:
        stage.session.drain()
        await stage.play("client: EOF")
        await stage.is_over.wait()
        assert stage.end == ("proxy", "320")


async def test_the_client_goes_without_an_answer() -> None:
    async with staged(OPEN) as stage:
        stage.session.drain()
        await stage.play("""
            client: connection.close 320
            >> EOF
            broker: connection.close 320
        """)


async def test_the_broker_goes_before_the_client_has_answered() -> None:
    async with staged(OPEN) as stage:
        stage.session.drain()
        await stage.play("client: connection.close 320")
        stage.broker.socket.close()
        await stage.play(f"""
            >> {PUBLISH}
            client: nothing
            >> {PUBLISH}
            client: nothing
            >> connection.close-ok
            client: EOF
        """)
        assert stage.count("upstream_failures_total", reason="lost") == 0


async def test_the_broker_goes_while_a_publish_is_finished() -> None:
    async with staged(OPEN) as stage:
        await stage.play(">> 1: basic.publish, 1: header 10, 1: body 3")
        stage.session.drain()
        await stage.play("""
            << EOF
            client: connection.close 320
            >> connection.close-ok
            client: EOF
        """)
        assert stage.end == ("server", "none")


async def test_a_second_drain_changes_nothing() -> None:
    async with staged(OPEN) as stage:
        await stage.play(">> 1: basic.publish, 1: header 10, 1: body 3")
        stage.session.drain()
        await stage.play(">> 2: basic.publish, 2: header 10")
        stage.session.drain()
        await stage.play("""
            >> 1: body 7
            client: connection.close 320
        """)


async def test_an_abort_tells_both_and_waits_for_neither_s_content() -> None:
    async with staged(OPEN) as stage:
        await stage.play(">> 1: basic.publish, 1: header 10, 1: body 3")
        stage.session.drain()
        stage.session.abort("not drained within 1 s")
        await stage.play("""
            broker: connection.close 320
            client: connection.close 320
            >> connection.close-ok
            client: EOF
            << connection.close-ok
            broker: EOF
        """)


async def test_draining_what_is_ending_already() -> None:
    async with staged(OPEN, limits=LIMITS) as stage:
        stage.session.disconnect(CLIENT, "missed its heartbeats")
        await stage.play("broker: connection.close 320")
        stage.session.drain()
        stage.session.disconnect(CLIENT, "missed its heartbeats")
        await stage.play("""
            << connection.close-ok
            broker: EOF
        """)


# ---------------------------------------------------------------------------------------- what is counted


@pytest.mark.parametrize(("code", "label"), [(320, "320"), (200, "200"), (999, "other"), (0, "none")])
async def test_codes_are_bounded(code: int, label: str) -> None:
    async with staged(OPEN) as stage:
        await stage.play(f"""
            >> 1: channel.close {code}
            << connection.close {code}
            >> connection.close-ok
            >> EOF
            << EOF
        """)
        await stage.is_over.wait()
        assert stage.end == ("server", label)


async def test_frames_are_counted_once() -> None:
    async with staged(OPEN) as stage:
        await stage.play(f">> {PUBLISH}")
        count = stage.count
        assert count("frames_total", sender="client", type="method", method="basic.publish") == 1
        assert count("frames_total", sender="client", type="body", method="basic.publish") == 1
        assert count("frame_bytes_total", sender="client", type="body", method="basic.publish") == 13
        assert count("channels") == 2


# ------------------------------------------------------------------------------------------- refused by a rule


def introduces_itself(**capabilities: bool) -> bytes:
    properties = Table({"capabilities": Table(capabilities)})
    return method("connection.start-ok", client_properties=properties, mechanism="PLAIN", response=b"\0guest\0guest")


GREETED = """
    >> header
    << connection.start
"""


async def test_a_client_whose_login_is_refused_is_told_if_it_takes_that(autojump_clock: MockClock) -> None:
    rules = RuleSet([Refuse(name="not here", match=Match(method=("connection.start-ok",)))])
    async with staged(GREETED, rules=rules) as stage:
        stage.client.socket.send(introduces_itself(authentication_failure_close=True))
        await stage.play("""
            client: connection.close 403
            broker: nothing
        """)
        stage.client.perform("connection.close-ok")
        await stage.is_over.wait()
        assert stage.end == ("proxy", "403")


async def test_another_only_finds_its_connection_closed(autojump_clock: MockClock) -> None:
    rules = RuleSet([Refuse(name="not here", match=Match(method=("connection.start-ok",)))])
    async with staged(GREETED, rules=rules) as stage:
        stage.client.socket.send(introduces_itself(authentication_failure_close=False))
        await stage.play("client: EOF")
        assert stage.end == ("proxy", "403")


async def test_a_client_whose_limits_are_refused_is_told(autojump_clock: MockClock) -> None:
    rules = RuleSet([Refuse(name="not so", match=Match(method=("connection.tune-ok",)))])
    script = """
        >> connection.start-ok
        << connection.tune
    """
    async with staged(GREETED + script, rules=rules) as stage:
        stage.client.perform("connection.tune-ok, connection.open")
        await stage.play("client: connection.close 530")
        stage.client.perform("connection.close-ok")
        await stage.is_over.wait()
        assert stage.end == ("proxy", "530")


# ------------------------------------------------------------------------------------------- held


async def test_what_is_held_is_told_of_and_goes_on_when_it_is_released(autojump_clock: MockClock) -> None:
    rules = RuleSet([Hold(name="look", match=Match(method=("queue.declare", "basic.publish")), timeout=60)])
    told: list[int] = []
    async with staged(OPEN, rules=rules) as stage:
        stage.session._on_hold = lambda session, number: told.append(number)
        stage.client.perform("1: queue.declare, 1: basic.ack")
        await stage.play("broker: nothing")
        [number] = told
        assert stage.session.interceptor is not None
        assert list(stage.session.interceptor.waiting) == [number]
        stage.session.release(number, None)
        await stage.play("broker: 1: queue.declare, 1: basic.ack")
        with pytest.raises(KeyError):
            stage.session.release(number, None)


async def test_nothing_is_released_any_more_once_the_session_is_ending(
    autojump_clock: MockClock, log: list[structlog.typing.EventDict]
) -> None:
    rules = RuleSet([Hold(name="look", match=Match(method=("queue.declare",)), timeout=60)])
    async with staged(OPEN, rules=rules) as stage:
        await stage.play(">> 1: queue.declare\nbroker: nothing")
        assert stage.session.interceptor is not None
        [number] = stage.session.interceptor.waiting
        stage.session.disconnect(SERVER, "missed its heartbeats")
        await stage.play("client: connection.close 320")
        assert list(stage.session.interceptor.waiting) == [number]
        with pytest.raises(KeyError):
            stage.session.release(number, None)
        stage.client.perform("connection.close-ok")
        await stage.is_over.wait()
    assert [event["event"] for event in log if event["log_level"] == "error"] == []


async def test_what_is_released_to_be_refused_closes_what_it_has_to(autojump_clock: MockClock) -> None:
    rules = RuleSet([Hold(name="look", match=Match(method=("queue.declare",)), timeout=60)])
    for scope, heard in ((Scope.CHANNEL, "1: channel.close 403"), (Scope.CONNECTION, "connection.close 403")):
        async with staged(OPEN, rules=rules) as stage:
            stage.client.perform("1: queue.declare")
            await stage.play("broker: nothing")
            assert stage.session.interceptor is not None
            [number] = stage.session.interceptor.waiting
            stage.session.release(number, Verdict(command=None, close=Close(scope, 403, "ACCESS_REFUSED - no")))
            await stage.play(f"client: {heard}")


async def test_a_session_that_is_over_holds_nothing() -> None:
    async with staged(OPEN) as stage:
        with pytest.raises(KeyError):
            stage.session.release(1, None)


async def test_what_is_known_of_a_client() -> None:
    async with staged(OPEN) as stage:
        assert (stage.session.known.user, stage.session.known.vhost) == ("guest", "/")


# ------------------------------------------------------------------------------------------- turns


async def test_many_commands_in_one_read_leave_others_their_turns(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    monkeypatch.setattr("amqproxy.proxy.turns.QUANTUM", 0.0)
    rules = RuleSet([Log(name="look", level="debug", text="{body}", match=Match(method="basic.publish"))])
    message = octets("1: basic.publish") + octets("1: header 5") + octets("1: body 5")
    count = 4 * QUANTUM_FRAMES
    async with staged(OPEN, rules=rules) as busy, staged(OPEN, rules=rules) as other:
        busy.client.say(message * count)
        heard = []
        while sum(heard) < count * len(message):
            other.client.perform("heartbeat")
            while not other.broker.look():
                await trio.lowlevel.checkpoint()
            heard.append(len(busy.broker.look()))
        assert len(heard) > 5  # the other was served so many times meanwhile
        assert busy.broker.seen.endswith(message * count)


async def test_what_was_read_together_is_sent_on_together_while_there_is_time(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    monkeypatch.setattr("amqproxy.proxy.turns.QUANTUM", float("inf"))
    rules = RuleSet([Log(name="look", level="debug", text="{body}", match=Match(method="basic.publish"))])
    message = octets("1: basic.publish") + octets("1: header 5") + octets("1: body 5")
    count = 2 * QUANTUM_FRAMES
    async with staged(OPEN, rules=rules) as stage:
        sent: list[bytes] = []
        transport = stage.session.legs[SERVER].transport
        send = transport.send

        class Counted:
            def __getattr__(self, name: str) -> object:
                return getattr(transport, name)

            async def send(self, data: bytes | memoryview) -> None:
                sent.append(bytes(data))
                await send(data)

        monkeypatch.setattr(stage.session.legs[SERVER], "transport", Counted())
        stage.client.say(message * count)
        await wait_all_tasks_blocked()
        assert sent == [message * count]


async def test_a_backlog_that_is_released_leaves_others_their_turns(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    monkeypatch.setattr("amqproxy.proxy.turns.QUANTUM", 0.0)
    hold = RuleSet([Hold(name="wait", match=Match(method="queue.declare"), timeout=50.0)])
    async with staged(OPEN, rules=hold) as busy, staged(OPEN, rules=hold) as other:
        busy.client.perform("1: queue.declare")
        await wait_all_tasks_blocked()
        message = octets("1: basic.publish") + octets("1: header 0")
        for _ in range(10):
            busy.client.say(message * 100)
            await wait_all_tasks_blocked()
        assert busy.broker.look() == b""
        busy.session.release(1, None)
        turns = 0
        while len(busy.broker.seen) < 1000 * len(message):
            other.client.perform("heartbeat")
            while not other.broker.look():
                await trio.lowlevel.checkpoint()
            busy.broker.look()
            turns += 1
        assert turns > 10
        assert busy.broker.seen.endswith(message * 1000)


async def test_a_drain_waits_for_all_that_it_releases(autojump_clock: MockClock) -> None:
    hold = RuleSet([Hold(name="wait", match=Match(method="queue.declare"), timeout=50.0)])
    async with staged(OPEN, rules=hold) as stage:
        stage.client.perform("1: queue.declare")
        await wait_all_tasks_blocked()
        message = octets("1: basic.publish") + octets("1: header 0")
        for _ in range(5):
            stage.client.say(message * 100)
            await wait_all_tasks_blocked()
        stage.session.drain()
        assert stage.client.look() == b""
        await wait_all_tasks_blocked()
        stage.broker.look()
        assert stage.broker.seen.endswith(message * 500)
        assert await stage.client.sees() == "connection.close 320"
        stage.client.perform("connection.close-ok, EOF")
        await stage.is_over.wait()


async def test_a_drain_releases_all_that_waits_on_several_channels(autojump_clock: MockClock) -> None:
    """A turn that ends between two commands that wait counts for none of them."""
    hold = RuleSet([Hold(name="wait", match=Match(method="queue.declare"), timeout=50.0)])
    async with staged(OPEN, rules=hold) as stage:
        message = octets("1: queue.declare") + octets("2: queue.declare") * 100
        stage.client.say(message)
        await wait_all_tasks_blocked()
        stage.session.drain()
        await wait_all_tasks_blocked()
        stage.broker.look()
        assert stage.broker.seen.endswith(message)
        assert await stage.client.sees() == "connection.close 320"


async def test_the_end_of_a_client_waits_for_all_that_it_releases(autojump_clock: MockClock) -> None:
    hold = RuleSet([Hold(name="wait", match=Match(method="queue.declare"), timeout=50.0)])
    async with staged(OPEN, rules=hold) as stage:
        message = octets("1: basic.publish") + octets("1: header 0")
        stage.client.say(octets("1: queue.declare") + message * 300)
        await wait_all_tasks_blocked()
        stage.client.perform("EOF")
        await wait_all_tasks_blocked()
        stage.broker.look()
        assert stage.broker.seen.endswith(message * 300)
        assert stage.broker.ending == "EOF"


async def test_what_is_left_of_a_read_is_heard_when_the_session_ends(autojump_clock: MockClock) -> None:
    """A close-ok among the frames that nobody looks at any more."""
    async with staged(OPEN) as stage:
        stage.session.client.reader.quantum = 1
        frames = octets("1: basic.qos") * 3 + octets("connection.close-ok")
        stage.session.client.connection.send(SERVER, 0, ConnectionClose(320, "x", 0, 0))
        stage.session.client.reader.want(EVERY_METHOD, content=True)
        stage.session.client.reader.feed(frames)
        assert stage.session.client.reader.is_paused
        with trio.fail_after(1):
            await stage.session.client.linger()


# ------------------------------------------------------------------------------ frames of which a part has come

TRICKLED = encode_frame(BODY, 1, bytes(100_000))
LARGE_MESSAGE = "1: basic.publish, 1: header 100000"


async def test_what_has_come_of_a_frame_counts_as_memory() -> None:
    memory = MemoryBudget(1_000_000)
    async with staged(OPEN, memory=memory) as stage:
        await stage.play(f">> {LARGE_MESSAGE}")
        for start in range(0, 90_000, 10_000):
            stage.client.say(TRICKLED[start : start + 10_000])
            await stage.broker.sees()
            assert memory.used == start + 10_000
        stage.client.say(TRICKLED[90_000:])
        await stage.broker.sees()
        assert memory.used == 0
        stage.broker.say(TRICKLED[:5_000])  # whoever sends it
        await stage.client.sees()
        assert memory.used == 5_000
        stage.client.perform("EOF")
        stage.broker.perform("EOF")
        await stage.is_over.wait()
    assert memory.used == 0


async def test_who_announces_a_large_frame_and_lets_it_trickle_takes_no_more_than_its_share() -> None:
    memory = MemoryBudget(1_000_000, 50_000)
    async with staged(OPEN, memory=memory) as stage:
        await stage.play(f">> {LARGE_MESSAGE}")
        stage.client.say(TRICKLED[:40_000])
        assert await stage.client.sees() == "nothing"
        stage.client.say(TRICKLED[40_000:60_000])
        assert await stage.client.sees() == "connection.close 506"
        assert await stage.broker.sees() == "connection.close 320"
        stage.client.perform("EOF")
        stage.broker.perform("EOF")
        await stage.is_over.wait()
        assert stage.end == ("proxy", "506")


async def test_who_keeps_little_is_not_refused_what_every_peer_must_take() -> None:
    memory = MemoryBudget(10_000)
    others = MemoryShare(memory)
    others.add(10_000)
    async with staged(OPEN, memory=memory) as stage:
        frame = encode_frame(BODY, 1, bytes(4_000))
        await stage.play(">> 1: basic.publish, 1: header 4000")
        stage.client.say(frame[:3_000])
        await stage.broker.sees()
        stage.client.say(frame[3_000:])
        assert await stage.broker.sees() == "1: body 4000"
        assert not stage.is_over.is_set()


@pytest.mark.parametrize(("mechanism", "passes"), [("EXTERNAL", False), ("PLAIN", True)])
async def test_the_rule_of_the_docs_lets_nobody_log_in_as_the_proxy(mechanism: str, *, passes: bool) -> None:
    text = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()
    _, _, found = text.partition('[[rules]]\nname = "no login as the proxy"')
    keys = msgspec.toml.decode(found.partition("```")[0])
    refuse = msgspec.convert({"name": "as the proxy", **keys}, AnyRule)
    start_ok = encode_method(0, ConnectionStartOk(mechanism=mechanism, response=b"\0a\0b"))
    async with staged(">> header\n<< connection.start", rules=RuleSet([refuse])) as stage:
        stage.client.say(start_ok)
        heard = await stage.broker.sees()
        assert ("connection.start-ok" in heard) == passes
        assert stage.is_over.is_set() != passes


async def test_nothing_of_a_session_that_is_over_waits_for_the_garbage_collector() -> None:
    """With thousands of connections that takes long, and nobody is served meanwhile; so it looks seldom."""
    rules = RuleSet([Refuse(name="no", match=Match(method="basic.publish")), Hold(name="look", match=Match(queue="q"))])
    gc.collect()
    gc.disable()
    try:
        async with staged(OPEN, rules=rules) as stage:
            interceptor = weakref.ref(stage.session.interceptor)
            await stage.play(f">> {PUBLISH}\nbroker: 1: channel.close 200\nclient: 1: channel.close 403")
            stage.client.perform("connection.close, EOF")
            await stage.broker.sees()
            stage.broker.perform("connection.close-ok, EOF")
            await stage.client.sees()
            await stage.is_over.wait()
            assert interceptor() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("ending", ["client", "broker", "violation", "reset"])
async def test_nor_does_anything_of_a_session_that_passes(ending: str) -> None:
    def parts() -> int:
        return sum(isinstance(each, (Session, SessionParts, Traffic, Leg)) for each in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = parts()
        async with staged(OPEN, tcp=ending == "reset") as stage:
            assert parts() > before
            first, second = (stage.broker, stage.client) if ending == "broker" else (stage.client, stage.broker)
            first.perform({"violation": "1: body 5", "reset": "RST"}.get(ending, "connection.close"))
            await second.sees()
            second.perform("EOF" if ending == "reset" else "connection.close-ok, EOF")
            if ending != "reset":
                await first.sees()
                first.perform("connection.close-ok, EOF" if ending == "violation" else "EOF")
            await stage.is_over.wait()
            del stage.session
            await wait_all_tasks_blocked()
            assert parts() == before
    finally:
        gc.enable()


@pytest.mark.parametrize("rules", [None, RuleSet([Log(name="l", text="seen")])])
async def test_a_tap_comes_and_goes_while_the_session_runs(rules: RuleSet | None) -> None:
    """What passes before it came and after it went is not shown; the peers notice nothing."""
    tap = Audience()
    async with staged(OPEN, rules=rules) as stage:
        await stage.play(">> 1: basic.publish, 1: header 5")
        stage.session.apply_tap(tap)
        await stage.play("""
            >> 1: body 5
            >> 1: basic.publish, 1: header 0
            << 1: basic.return, 1: header 0
        """)
        stage.session.apply_tap(None)
        await stage.play(">> 1: basic.publish, 1: header 0")
    assert tap.seen == ["client 3", "client basic.publish", "client 2", "server basic.return", "server 2"]
