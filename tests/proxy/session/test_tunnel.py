"""0-8 and AMQP 1.0, which are relayed without being decoded."""

import pytest
import structlog
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.configuration.config import Limits, Unread
from amqproxy.control.session_entries import connection_entry
from amqproxy.proxy import watchdog
from amqproxy.proxy.tap_brake import TapBrake
from amqproxy.rules.access.allow import Allow
from amqproxy.rules.access.refuse import Refuse
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.faults.fault import Fault
from amqproxy.rules.faults.stream_faults import LatencyFault
from amqproxy.rules.limits.limit import Limit
from amqproxy.rules.matching.match import Match
from amqproxy.rules.observing.hold import Hold
from amqproxy.rules.observing.log import Log
from amqproxy.rules.rule import Rule
from amqproxy.sockets.transport import Transport
from tests.proxy.recording_tap import Audience
from tests.proxy.stage import Stage, staged

HEADER = b"AMQP\1\1\x08\0"
QPID = b"AMQP\1\1\x09\1"
"""The header that old clients of Qpid send, to which RabbitMQ answers with 0-8 too."""

SASL = b"AMQP\3\1\0\0"

LOG, SHADOW, LIMIT = Log(name="log"), Refuse(name="no", mode="shadow"), Limit(name="few", of="channels", most=3)
HOLD = Hold(name="hold", match=Match(method=("basic.publish",)))
FAULT = Fault(name="slow", fault=LatencyFault(delay=0.1))

LIMITS = Limits(close_timeout=5.0, handshake_timeout=15.0)


async def greet(stage: Stage, header: bytes = HEADER) -> None:
    stage.client.say(header + b"\xff start-ok")
    await wait_all_tasks_blocked()
    assert stage.broker.look() == header + b"\xff start-ok"
    stage.broker.say(b"\xfe start")
    await wait_all_tasks_blocked()
    assert stage.client.look() == b"\xfe start"


@pytest.mark.parametrize(("header", "name"), [(HEADER, "0-8"), (QPID, "0-9-1 (Qpid)")])
@pytest.mark.parametrize("ends", ["client", "broker"])
async def test_what_is_not_read_passes_both_ways_and_ends(
    ends: str, header: bytes, name: str, log: list[structlog.typing.EventDict], autojump_clock: MockClock
) -> None:
    async with staged(limits=LIMITS) as stage:
        await greet(stage, header)
        await trio.sleep(100)  # it is unknown when such a connection is open
        one, other = (stage.client, stage.broker) if ends == "client" else (stage.broker, stage.client)
        one.perform("EOF")
        assert await other.sees() == "EOF"
        other.say(b"last words")
        await wait_all_tasks_blocked()
        assert one.look() == b"last words"
        other.perform("EOF")
        await stage.is_over.wait()
        assert log[-1]["by"] == ("client" if ends == "client" else "server")
        assert log[-1]["reason"] == f"closed, after {name}"


@pytest.mark.parametrize("ends", ["client", "broker"])
async def test_who_is_reset(ends: str, autojump_clock: MockClock) -> None:
    async with staged(limits=LIMITS, tcp=True) as stage:
        await greet(stage)
        one, other = (stage.client, stage.broker) if ends == "client" else (stage.broker, stage.client)
        one.reset()
        await stage.is_over.wait()
        assert await other.sees() in ("EOF", "RST")


async def test_half_closed_is_not_for_ever(autojump_clock: MockClock) -> None:
    async with staged(limits=LIMITS) as stage:
        await greet(stage)
        stage.client.perform("EOF")
        await stage.is_over.wait()
        assert trio.current_time() == pytest.approx(5.0)


@pytest.mark.parametrize("header", [HEADER, QPID, SASL])
@pytest.mark.parametrize(
    ("unread", "rules"), [("refuse", ()), ("refuse", (LOG,)), (None, (Allow(name="all"),)), (None, (LOG, LIMIT))]
)
async def test_refused_by_choice_or_where_rules_decide(
    header: bytes, unread: Unread, rules: tuple[Rule, ...], autojump_clock: MockClock
) -> None:
    async with staged(rules=RuleSet(rules), unread=unread) as stage:
        stage.client.say(header)
        await stage.play("client: header, EOF")
        assert stage.count("connections_refused_total", reason="protocol") == 1


@pytest.mark.parametrize(
    ("unread", "rules"), [(None, (LOG, HOLD, FAULT, SHADOW)), ("pass", (Allow(name="all"), LIMIT)), ("pass", ())]
)
async def test_passes_by_choice_or_where_rules_only_observe_and_disturb(
    unread: Unread, rules: tuple[Rule, ...], autojump_clock: MockClock
) -> None:
    async with staged(limits=LIMITS, rules=RuleSet(rules), unread=unread) as stage:
        await greet(stage)
        stage.session.apply_rules(RuleSet(rules))
        stage.client.say(b"more")
        await wait_all_tasks_blocked()
        assert stage.broker.look() == b"more"
        assert stage.count("unread_connections_total", protocol="0-8") == 1
        assert stage.count("unread_bytes_total", sender="client") == len(HEADER) + 10 + 4
        assert stage.count("unread_bytes_total", sender="server") == 7
        assert connection_entry(stage.session)["protocol"] == "0-8"
        stage.client.perform("EOF")
        await stage.is_over.wait()


async def test_waits_for_a_tap_that_must_not_miss_anything(autojump_clock: MockClock) -> None:
    brake = TapBrake()
    async with staged(limits=LIMITS, brake=brake) as stage:
        await greet(stage)
        brake.pull(stage.session.number)
        stage.client.say(b"ask")
        stage.broker.say(b"tell")
        await wait_all_tasks_blocked()
        assert (stage.broker.look(), stage.client.look()) == (b"", b"")
        assert stage.count("unread_bytes_total", sender="server") == 7
        brake.release()
        await wait_all_tasks_blocked()
        assert (stage.broker.look(), stage.client.look()) == (b"ask", b"tell")
        stage.client.perform("EOF")
        await stage.is_over.wait()


async def test_a_tap_is_shown_its_bytes_without_the_login(autojump_clock: MockClock) -> None:
    tap = Audience()
    async with staged(limits=LIMITS, tap=tap) as stage:
        stage.client.say(SASL)
        await wait_all_tasks_blocked()
        stage.broker.say(SASL)
        await wait_all_tasks_blocked()
        stage.client.say(b"\0\0\0\x0c\2\1\0\0pass")
        await wait_all_tasks_blocked()
        stage.client.perform("EOF")
        await stage.is_over.wait()
    assert tap.seen[0].endswith(repr(SASL))
    assert tap.seen[1:] == [
        f"server 1.0 (SASL) {SASL!r}",
        r"client 1.0 (SASL) b'\x00\x00\x00\x0c\x02\x01\x00\x00****'",
    ]


async def test_it_ends_when_there_are_rules_or_a_drain() -> None:
    for end in (
        lambda stage: stage.session.apply_rules(RuleSet([Allow(name="all")])),
        lambda stage: stage.session.drain(),
    ):
        async with staged(limits=LIMITS) as stage:
            await greet(stage)
            stage.session.apply_rules(RuleSet(()))
            await stage.play("client: nothing")
            end(stage)
            await stage.play("""
                client: EOF
                broker: EOF
            """)
            await stage.is_over.wait()


async def test_who_takes_nothing_is_let_go(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    async with staged(limits=LIMITS, tcp=True) as stage:
        await greet(stage)
        nursery.start_soon(watchdog.watch, {1: stage.session}, LIMITS)
        try:
            while stage.broker.socket.send(bytes(65536)):
                await wait_all_tasks_blocked(stage.broker.cushion)
        except BlockingIOError:
            pass
        await stage.is_over.wait()
        stage.client.look()
        assert stage.client.ending == "RST"


async def test_rules_that_come_while_the_upstream_is_dialled_count(autojump_clock: MockClock) -> None:
    async def dial() -> Transport:
        stage.session.apply_rules(RuleSet([Allow(name="a")]))
        return await stage._dial()

    async with staged(limits=LIMITS, dial=dial) as stage:
        stage.client.say(HEADER + b"\xff start-ok")
        assert await stage.client.sees() == "header, EOF"
        stage.client.perform("EOF")
        await stage.is_over.wait()
        assert stage.broker.look() == b""
        assert stage.count("connections_refused_total", reason="protocol") == 1
