"""Clients come and go, over real sockets; the broker is a socket that the test holds."""

from __future__ import annotations

import errno
import math
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext

import pytest
import structlog
import trio
from msgspec.structs import replace
from trio.testing import MockClock, assert_no_checkpoints, wait_all_tasks_blocked

from amqproxy.amqp091.errors import ConnectionForced
from amqproxy.configuration.config import Limits, ListenerConfig, ProxyProtocolConfig
from amqproxy.proxy import listener as listener_module
from amqproxy.proxy.admission_queue import AdmissionQueue
from amqproxy.proxy.amqp091.traffic import Amqp091Traffic
from amqproxy.proxy.listener import ProxyServer, listen
from amqproxy.proxy.logins.credential import Credential
from amqproxy.proxy.logins.credential_file import FixedCredential
from amqproxy.proxy.open_listener import ListenerLoad, OpenListener
from amqproxy.proxy.session.session import Session
from amqproxy.proxy.session.session_report import SessionReport
from amqproxy.proxy.sessions import for_each
from amqproxy.proxy.upstreams.upstreams import Upstreams
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.matching.match import Match
from amqproxy.rules.observing.hold import Hold
from amqproxy.rules.rewriting.secret import Secret
from amqproxy.sockets.transport import SocketTransport, Transport
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.tap import Tap
from tests.proxy.recording_tap import Audience
from tests.proxy.stage import HANDSHAKE, connected
from tests.transcripts.words import octets, words

LIMITS = Limits(connections=3, close_timeout=0.3, drain_timeout=0.6, handshake_timeout=5.0)


class House:
    """A server on a free port, its brokers' ends, and what it counts."""

    def __init__(self, limits: Limits, config: ListenerConfig, tls: ssl.SSLContext | None = None) -> None:
        self.config = config
        self.load = ListenerLoad(config)
        self.tls = tls
        self.metrics = Metrics()
        self.brokers: list[trio.SocketStream] = []
        self.server = ProxyServer(Upstreams.of(self._dial, self.metrics), limits, self.metrics)
        self.drain = trio.Event()
        self.clients: list[trio.SocketStream] = []
        self.is_over = trio.Event()

    async def _dial(self) -> Transport:
        broker, dialled = connected()
        self.brokers.append(_stream(broker))
        return SocketTransport(dialled)

    async def serve(self, task_status: trio.TaskStatus[None]) -> None:
        listeners = await listen("127.0.0.1:0")
        self.port = listeners[0].socket.getsockname()[1]
        self.opened_listeners = [OpenListener(each, self.config, tls=self.tls, load=self.load) for each in listeners]
        task_status.started()
        try:
            await self.server.serve(self.opened_listeners, self.drain)
        finally:
            for each in listeners:
                await trio.aclose_forcefully(each)
        self.is_over.set()

    async def client(self) -> trio.SocketStream:
        client = await trio.open_tcp_stream("127.0.0.1", self.port)
        self.clients.append(client)
        return client

    async def opened(self) -> tuple[trio.SocketStream, trio.SocketStream]:
        """A client and its broker's end, the connection open between them."""
        client = await self.client()
        number = len(self.brokers)
        await client.send_all(octets("header"))
        with trio.fail_after(5):
            while len(self.brokers) == number:  # noqa: ASYNC110
                await trio.sleep(0.001)
        broker = self.brokers[-1]
        await receive(broker, len(octets("header")))
        for line in HANDSHAKE.strip().splitlines()[1:]:
            arrow, _, frames = line.strip().partition(" ")
            speaker, listener = (client, broker) if arrow == ">>" else (broker, client)
            await speaker.send_all(octets(frames))
            await receive(listener, len(octets(frames)))
        return client, broker

    async def holds(self, connections: int) -> None:
        """Wait until so many are left."""
        with trio.fail_after(5):
            while self.count("connections") > connections:  # noqa: ASYNC110
                await trio.sleep(0.001)

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"amqproxy_{name}", labels) or 0


def _stream(end: socket.socket) -> trio.SocketStream:
    return trio.SocketStream(trio.socket.from_stdlib_socket(end))


async def receive(stream: trio.SocketStream, count: int) -> bytes:
    data = b""
    with trio.fail_after(5):
        while len(data) < count:
            data += await stream.receive_some(count - len(data)) or pytest.fail("closed")
    return data


async def rest(stream: trio.SocketStream) -> str:
    """In words, all that still comes, and how it ends."""
    data = b""
    with trio.fail_after(5):
        try:
            while more := await stream.receive_some():
                data += more
        except trio.BrokenResourceError:
            return f"{words(data)}, RST"
    return words(data)


@asynccontextmanager
async def house(
    limits: Limits = LIMITS,
    rules: RuleSet | None = None,
    proxy_protocol: ProxyProtocolConfig | None = None,
    tls: ssl.SSLContext | None = None,
    config: ListenerConfig | None = None,
) -> AsyncIterator[House]:
    """A server in a separate nursery; `rules` replace those of its config before it serves."""
    built = House(limits, config or ListenerConfig(proxy_protocol=proxy_protocol), tls)
    if rules is not None:
        built.server.apply_rules(rules)
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(built.serve)
            yield built
            nursery.cancel_scope.cancel()
    finally:
        for stream in built.clients + built.brokers:
            await trio.aclose_forcefully(stream)
    assert not built.server.sessions
    assert built.count("connections") == 0
    assert built.count("channels") == 0


async def test_clients_are_served_and_counted() -> None:
    async with house() as built:
        first, _ = await built.opened()
        await built.opened()
        assert built.count("connections") == 2
        assert built.count("connections_accepted_total") == 2
        await first.aclose()
        await built.brokers[0].aclose()
        await built.holds(1)


async def test_no_more_than_the_limit() -> None:
    async with house() as built:
        clients = [await built.client() for _ in range(5)]
        assert [await rest(client) for client in clients[3:]] == ["", ""]
        assert built.count("connections_refused_total", reason="limit") == 2
        assert built.count("connections") == 3
        await clients[0].aclose()
        await built.holds(2)
        await built.opened()


async def test_no_more_than_the_limit_of_the_listener(log: list[structlog.typing.EventDict]) -> None:
    async with house(config=ListenerConfig(connections=1)) as built:
        client, _ = await built.opened()
        assert await rest(await built.client()) == ""
        assert built.count("connections_refused_total", reason="limit") == 1
        assert built.load.connections == 1
        await client.aclose()
        await built.brokers[0].aclose()
        await built.holds(0)
        await built.opened()
    reasons = [event["reason"] for event in log if event["event"] == "connection refused"]
    assert reasons == ["connections of the listener 127.0.0.1:5673 is 1"]


async def test_further_clients_are_served_by_another_config() -> None:
    """Those that are connected count for its limits."""
    async with house() as built:
        client, broker = await built.opened()
        for each in built.opened_listeners:
            each.apply(ListenerConfig(connections=1), None, None)
        assert await rest(await built.client()) == ""
        for each in built.opened_listeners:
            each.apply(ListenerConfig(connections=2, proxy_protocol=ProxyProtocolConfig()), None, None)
        unannounced = await built.client()
        await unannounced.send_all(octets("header"))
        assert await rest(unannounced) in CLOSED
        assert built.count("connections_refused_total", reason="proxy-header") == 1
        await client.send_all(octets("heartbeat"))
        assert await receive(broker, len(octets("heartbeat"))) == octets("heartbeat")


async def test_handshakes_wait_for_their_turn(log: list[structlog.typing.EventDict]) -> None:
    """The second client waits, and the third is refused."""
    turns = AdmissionQueue(0.001, most=1)
    async with house() as built:
        built.load.handshakes = turns
        await built.opened()
        waiting = await built.client()
        await waiting.send_all(octets("header"))
        with trio.fail_after(5):
            while not len(turns):  # noqa: ASYNC110
                await trio.sleep(0.001)
        assert await rest(await built.client()) == ""
        assert built.count("connections_refused_total", reason="handshake-queue") == 1
        assert len(built.brokers) == 1
    assert [event["reason"] for event in log if event["event"] == "connection refused"] == [
        "too many clients wait for 127.0.0.1:5673"
    ]


async def test_no_descriptor_left(monkeypatch: pytest.MonkeyPatch, log: list[structlog.typing.EventDict]) -> None:
    accept = trio.SocketListener.accept
    failures = iter([OSError(errno.EMFILE, "Too many open files"), OSError(errno.ENOMEM, "No memory")])

    async def scarce(self: trio.SocketListener) -> trio.SocketStream:
        for failure in failures:
            raise failure
        return await accept(self)

    monkeypatch.setattr(trio.SocketListener, "accept", scarce)
    monkeypatch.setattr(listener_module, "BREATHER", 0.01)
    async with house() as built:
        await built.opened()
        assert built.count("connections_refused_total", reason="resources") == 2
    assert [event["reason"] for event in log if event["event"] == "cannot accept"] == [
        "Too many open files",
        "No memory",
    ]


async def test_a_client_gone_before_it_was_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with house() as built:
        with monkeypatch.context() as patch:
            patch.setattr(ProxyServer, "_admit", lambda *_: None)
            assert await rest(await built.client()) == ""
        await built.opened()


async def test_one_client_s_trouble_is_not_another_s(
    monkeypatch: pytest.MonkeyPatch, log: list[structlog.typing.EventDict]
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    async with house() as built:
        client, broker = await built.opened()
        other, other_broker = await built.opened()
        with monkeypatch.context() as patch:
            patch.setattr(Amqp091Traffic, "_on_method", fail)
            await client.send_all(octets("1: channel.open"))
            assert await receive(client, 14)
        await client.send_all(octets("connection.close-ok"))
        await broker.send_all(octets("connection.close-ok"))
        assert await rest(broker) == "connection.close 541"
        await other.send_all(octets("heartbeat"))
        assert words(await receive(other_broker, 8)) == "heartbeat"
    assert [event["event"] for event in failures(log)] == ["session failed"]


async def test_a_drain_of_nothing() -> None:
    async with house() as built:
        built.drain.set()
        await built.is_over.wait()
        with pytest.raises(OSError, match="connect"):
            await trio.open_tcp_stream("127.0.0.1", built.port)


async def test_a_drain_of_all(autojump_clock: MockClock) -> None:
    async with house() as built:
        pairs = [await built.opened() for _ in range(2)]
        stranger = await built.client()
        built.drain.set()
        assert await rest(stranger) == ""
        for client, broker in pairs:
            await client.send_all(octets("connection.close-ok"))
            assert await rest(client) == "connection.close 320"
            await broker.send_all(octets("connection.close-ok"))
            assert await rest(broker) == "connection.close 320"
        with trio.fail_after(1):
            await built.is_over.wait()


async def test_a_drain_takes_its_time_and_no_more(autojump_clock: MockClock) -> None:
    """One does not answer, one does not finish what it has begun: both are closed, and neither is waited for."""
    async with house() as built:
        mute, mute_broker = await built.opened()
        slow, slow_broker = await built.opened()
        await slow.send_all(octets("1: channel.open, 1: basic.publish"))
        await receive(slow_broker, len(octets("1: channel.open, 1: basic.publish")))
        began = trio.current_time()
        built.drain.set()
        await built.is_over.wait()
        assert trio.current_time() - began == pytest.approx(LIMITS.drain_timeout, abs=0.25)
        for peer in (mute, mute_broker, slow, slow_broker):
            assert (await rest(peer)).startswith("connection.close 320")


async def test_a_drain_that_has_no_time_left_resets_what_it_has_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closes are not sent then: a thousand of them would take seconds."""
    asked: list[int] = []
    monkeypatch.setattr(Session, "abort", lambda session, reason: asked.append(session.number))
    async with house() as built:
        pairs = [await built.opened() for _ in range(2)]
        built.server._limits = built.server._services.limits = replace(LIMITS, drain_timeout=0.0)
        began = trio.current_time()
        built.drain.set()
        with trio.fail_after(5):
            await built.is_over.wait()
        assert trio.current_time() - began < 1
        for client, broker in pairs:
            assert (await rest(client)).endswith("RST")
            assert await rest(broker) == ""
    assert asked == []
    assert built.count("connections") == 0


async def test_an_address_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        await listen(f"127.0.0.1:{taken.getsockname()[1]}")


async def test_every_interface() -> None:
    listeners = await listen(":0")
    assert {each.socket.getsockname()[0] for each in listeners} <= {"0.0.0.0", "::"}
    for each in listeners:
        await each.aclose()


# ----------------------------------------------------------------------------------- one owner for each failure


def fail(*_: object) -> None:
    raise ZeroDivisionError("of one session")


def failures(log: list[structlog.typing.EventDict]) -> list[structlog.typing.EventDict]:
    """The lines at level error, none of which may have a traceback."""
    lines = [each for each in log if each["log_level"] == "error"]
    assert not any("exc_info" in each for each in lines)
    return lines


ROUNDS: dict[str, Callable[[House], object]] = {
    "drain": lambda built: built.drain.set(),
    "abort": lambda built: built.drain.set(),
    "apply_rules": lambda built: built.server.apply_rules(RuleSet(())),
    "count_unseen": lambda built: None,
}
"""Operations on all sessions, one after another, with their triggers."""


@pytest.mark.parametrize("name", ROUNDS)
async def test_a_session_that_fails_in_a_round_of_all_is_the_only_one_that_does(
    name: str, monkeypatch: pytest.MonkeyPatch, log: list[structlog.typing.EventDict]
) -> None:
    monkeypatch.setattr(listener_module, "COUNT_INTERVAL", 0.01)
    done: list[int] = []
    usual = getattr(Session, name)

    def sometimes(session: Session, *arguments: object) -> None:
        if session.number == 1:
            fail()
        done.append(session.number)
        usual(session, *arguments)

    async with house() as built:
        pairs = [await built.opened() for _ in range(3)]
        monkeypatch.setattr(Session, name, sometimes)
        if name == "abort":  # what comes before must not end them
            monkeypatch.setattr(Session, "drain", lambda session: None)
        ROUNDS[name](built)
        for end in pairs[0]:
            assert await rest(end) == "connection.close 541"
        with trio.fail_after(5):
            while not {2, 3} <= set(done):  # noqa: ASYNC110
                await trio.sleep(0.001)
    assert {each["event"] for each in failures(log)} == {"session failed"}
    assert {each["session"] for each in failures(log)} == {1}


async def test_a_client_that_cannot_be_admitted_is_the_only_one(
    monkeypatch: pytest.MonkeyPatch, log: list[structlog.typing.EventDict]
) -> None:
    monkeypatch.setattr(listener_module, "BREATHER", 0.01)
    async with house() as built:
        with monkeypatch.context() as patch:
            patch.setattr(ProxyServer, "_admit", fail)
            assert await rest(await built.client()) == ""
        await built.opened()
    assert [each["event"] for each in failures(log)] == ["cannot accept"]


async def test_what_fails_around_a_session_ends_it_only(
    monkeypatch: pytest.MonkeyPatch, log: list[structlog.typing.EventDict]
) -> None:
    """Not even a failure in the report of a session, or of its transport, affects another."""
    async with house() as built:
        client, broker = await built.opened()
        _, other = await built.opened()
        with monkeypatch.context() as patch:
            patch.setattr(SessionReport, "close", fail)
            patch.setattr(SocketTransport, "aclose", failing_close)
            await client.aclose()
            await broker.aclose()
            await built.holds(1)
        await built.clients[1].send_all(octets("heartbeat"))
        assert words(await receive(other, 8)) == "heartbeat"
    assert {each["event"] for each in failures(log)} == {"session failed"}


async def failing_close(transport: SocketTransport) -> None:
    transport._socket.close()
    fail()


async def test_a_watcher_of_held_commands_may_fail(log: list[structlog.typing.EventDict]) -> None:
    hold = RuleSet([Hold(name="look", match=Match(method="queue.declare"))])
    async with house() as built:
        built.server.apply_rules(hold)
        built.server.on_hold = fail
        client, broker = await built.opened()
        await client.send_all(octets("1: channel.open, 1: queue.declare, heartbeat"))
        assert words(await receive(broker, len(octets("1: channel.open, heartbeat")))) == "1: channel.open, heartbeat"
    assert [each["event"] for each in failures(log)] == ["hold not announced"]


# ------------------------------------------------------------------------------------------- many, in turns


class Guest:
    """A session that does nothing but note what is done to it."""

    is_parked = False

    def __init__(self, number: int, crowd: Crowd) -> None:
        self.number = number
        self._crowd = crowd
        self.rules: list[RuleSet] = []
        self.tap: Tap | None = None

    def contained(self) -> AbstractContextManager[None]:
        return nullcontext()

    def apply_rules(self, rules: RuleSet) -> None:
        self.rules.append(rules)
        self._crowd.done += 1

    def apply_tap(self, tap: Tap | None) -> None:
        self.tap = tap

    def count_unseen(self) -> None:
        self._crowd.done += 1

    def drain(self) -> None:
        self._crowd.done += 1

    def abort(self, reason: str) -> None:
        self.cut(reason)

    def cut(self, reason: str) -> None:
        self._crowd.done += 1
        del self._crowd.server.sessions[self.number]


class Crowd:
    """A server of many sessions, three turns and one more."""

    def __init__(self) -> None:
        metrics = Metrics()
        self.server = ProxyServer(Upstreams.of(unreachable, metrics), LIMITS, metrics)
        self.drain = trio.Event()
        self.guests = [Guest(number, self) for number in range(1, 3 * listener_module.SESSIONS_A_TURN + 2)]
        self.server.sessions.update({guest.number: guest for guest in self.guests})  # type: ignore[misc]
        self.server._unparked.update(self.server.sessions)
        self.done = 0
        self.most_between_turns = 0

    async def watch(self) -> None:
        """Note how many sessions were handled between two turns of this task: those of two turns at most."""
        before = self.done
        while True:
            await trio.lowlevel.checkpoint()
            self.most_between_turns = max(self.most_between_turns, self.done - before)
            before = self.done

    async def turns(self, count: int) -> None:
        for _ in range(count):
            await trio.lowlevel.checkpoint()


async def unreachable() -> Transport:
    raise NotImplementedError


@asynccontextmanager
async def crowd() -> AsyncIterator[Crowd]:
    crowd = Crowd()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(crowd.server.serve, [], crowd.drain)
        await wait_all_tasks_blocked()
        yield crowd
        nursery.cancel_scope.cancel()


MANY_ROUNDS: dict[str, Callable[[Crowd], object]] = {
    "apply_rules": lambda crowd: crowd.server.apply_rules(RuleSet(())),
    "count": lambda crowd: None,
    "drain": lambda crowd: crowd.drain.set(),
}


@pytest.mark.parametrize("name", MANY_ROUNDS)
async def test_of_many_sessions_a_few_have_their_round_in_a_turn(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "count":
        monkeypatch.setattr(listener_module, "COUNT_INTERVAL", 0.01)
    async with crowd() as many, trio.open_nursery() as nursery:
        nursery.start_soon(many.watch)
        MANY_ROUNDS[name](many)
        with trio.fail_after(5):
            while many.done < len(many.guests):
                await trio.lowlevel.checkpoint()
        await many.turns(2)
        assert 0 < many.most_between_turns <= 2 * listener_module.SESSIONS_A_TURN
        nursery.cancel_scope.cancel()


async def test_a_drain_cuts_off_a_few_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wait_no_longer_than_a_turn(server: ProxyServer) -> None:
        await trio.lowlevel.checkpoint()

    monkeypatch.setattr(ProxyServer, "_wait_until_empty", wait_no_longer_than_a_turn)
    async with crowd() as many, trio.open_nursery() as nursery:
        nursery.start_soon(many.watch)
        many.drain.set()
        with trio.fail_after(5):
            while many.server.sessions:
                await trio.lowlevel.checkpoint()
        assert many.done == 2 * len(many.guests)
        assert many.most_between_turns <= 2 * listener_module.SESSIONS_A_TURN
        nursery.cancel_scope.cancel()


async def test_from_a_time_on_all_that_are_left_are_handled_in_one_turn() -> None:
    async with crowd() as many:
        with assert_no_checkpoints():
            await for_each(many.server.sessions, lambda session: session.count_unseen(), 1, trio.current_time())
        assert many.done == len(many.guests)


class Busy:
    """Sessions whose work takes seconds in each turn of the loop, as a mock clock has it, until they have ended."""

    def __init__(self, many: Crowd, clock: MockClock, seconds: float) -> None:
        many.server._unparked.clear()  # whose count would come between
        self._many, self._clock, self._seconds = many, clock, seconds
        self.turns = 0

    async def work(self) -> None:
        while self._many.server.sessions:
            await trio.lowlevel.checkpoint()
            self._clock.jump(self._seconds)
            self.turns += 1


async def test_a_drain_keeps_to_its_time_where_each_turn_of_the_loop_is_long(
    mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeout = 30.0
    monkeypatch.setattr(listener_module, "SESSIONS_A_TURN", 1)
    async with crowd() as many, trio.open_nursery() as nursery:
        many.server._limits = replace(LIMITS, drain_timeout=timeout)
        many.server.lag.note(2.0)
        busy = Busy(many, mock_clock, 2.0)
        many.drain.set()
        await many.turns(2)  # it has begun: trio runs the tasks of a turn in any order
        nursery.start_soon(busy.work)
        while many.server.sessions:
            await trio.lowlevel.checkpoint()
        assert many.done == 2 * len(many.guests)
        assert trio.current_time() <= timeout
        nursery.cancel_scope.cancel()


async def test_a_drain_that_is_late_ends_every_session(mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "SESSIONS_A_TURN", 1)
    async with crowd() as many, trio.open_nursery() as nursery:
        nursery.start_soon(Busy(many, mock_clock, 60.0).work)
        many.drain.set()
        while many.server.sessions:
            await trio.lowlevel.checkpoint()
        assert many.done > len(many.guests)
        nursery.cancel_scope.cancel()


async def test_of_very_busy_sessions_more_have_their_round_in_a_turn(mock_clock: MockClock) -> None:
    async with crowd() as many, trio.open_nursery() as nursery:
        busy = Busy(many, mock_clock, 2.0)
        nursery.start_soon(busy.work)
        await for_each(many.server.sessions, lambda session: session.drain(), 1)
        assert many.done == len(many.guests)
        assert busy.turns <= 2
        nursery.cancel_scope.cancel()


async def test_another_tap_comes_to_all_sessions() -> None:
    tap = Audience()
    async with crowd() as many:
        many.server.apply_tap(tap)
        await many.turns(20)
        assert {guest.tap for guest in many.guests} == {tap}
        many.server.apply_tap(None)
        await many.turns(20)
        assert {guest.tap for guest in many.guests} == {None}


async def test_new_rules_come_to_all_sessions_and_those_replaced_meanwhile_to_none() -> None:
    first, second = RuleSet(()), RuleSet(())
    async with crowd() as many:
        many.server.apply_rules(first)
        await many.turns(1)
        gone = many.guests[-1]
        del many.server.sessions[gone.number]
        comes = Guest(gone.number + 1, many)  # one that was admitted after the first reload, and has its rules
        many.server.sessions[comes.number] = comes  # type: ignore[assignment]
        many.server.apply_rules(second)
        await many.turns(20)
        assert gone.rules == []
        assert all(guest.rules[-1] is second for guest in [*many.guests[:-1], comes])
        assert sum(guest.rules == [second] for guest in many.guests) >= listener_module.SESSIONS_A_TURN
        many.server.apply_rules(first)
        await many.turns(20)
        assert all(guest.rules[-1] is first for guest in many.server.sessions.values())  # type: ignore[attr-defined]


async def test_rules_replaced_before_anybody_is_served_hold_from_the_first_session_on() -> None:
    rules = RuleSet([Hold(name="look", match=Match(method="queue.declare"))])
    async with house(rules=rules) as built:
        await built.opened()
        (session,) = built.server.sessions.values()
        assert session.interceptor is not None


async def test_a_drain_and_new_rules_at_a_time() -> None:
    rules = RuleSet(())
    async with crowd() as many:
        many.server.apply_rules(rules)
        many.drain.set()
        await many.turns(20)
        assert all(guest.rules == [rules] for guest in many.guests)
        assert many.done == 2 * len(many.guests)


async def test_a_client_that_is_gone_before_its_tls_handshake_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ssl.SSLError("Closed before TLS handshake with data in recv buffer.")

    monkeypatch.setattr(listener_module, "secured", refuse)
    async with house(tls=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)) as built:
        client = await built.client()
        assert await rest(client) in CLOSED
        assert not built.server.sessions
        assert built.count("connections_refused_total", reason="resources") == 0


# --- PROXY headers

BALANCER = ProxyProtocolConfig(networks=("127.0.0.0/8",))
CLOSED = ("", ", RST")
HASTY = replace(LIMITS, tls_handshake_timeout=1.0)


async def refusal(client: trio.SocketStream, data: bytes) -> str:
    """How a connection ends after these bytes."""
    await client.send_all(data)
    return await rest(client)


async def test_the_client_of_a_balancer_is_the_one_that_is_seen() -> None:
    async with house(HASTY, proxy_protocol=BALANCER) as built:
        client = await built.client()
        await client.send_all(b"PROXY TCP4 10.1.2.3 10.9.9.9 40000 5672\r\n" + octets("header"))
        with trio.fail_after(5):
            while not built.brokers:  # noqa: ASYNC110
                await trio.sleep(0.001)
        (session,) = built.server.sessions.values()
        assert session.name == "10.1.2.3:40000-10.9.9.9:5672"
        assert (session.known.address, session.known.port) == ("10.1.2.3", 40000)
        assert session.known.listener == f"127.0.0.1:{built.port}"
        assert await receive(built.brokers[0], 8) == octets("header")


@pytest.mark.parametrize("data", [octets("header"), b"PROXY TCP4 10.1.2.3 \r\n", b"PROXY TCP4"])
async def test_a_connection_without_a_good_header_is_closed(data: bytes, autojump_clock: MockClock) -> None:
    async with house(HASTY, proxy_protocol=BALANCER) as built:
        client = await built.client()
        assert await refusal(client, data) in CLOSED
        assert built.count("connections_refused_total", reason="proxy-header") == 1
        assert not built.server.sessions


async def test_a_header_from_elsewhere_is_not_believed() -> None:
    for required in (True, False):
        elsewhere = ProxyProtocolConfig(networks=("10.0.0.0/8",), required=required)
        async with house(HASTY, proxy_protocol=elsewhere) as built:
            client = await built.client()
            answer = await refusal(client, b"PROXY TCP4 10.1.2.3 10.9.9.9 40000 5672\r\n")
            assert answer in CLOSED if required else answer.startswith("header")
            reason = "proxy-header" if required else "protocol"
            assert built.count("connections_refused_total", reason=reason) == 1
            if not required:
                await built.opened()
                assert {each.known.address for each in built.server.sessions.values()} == {"127.0.0.1"}


async def test_a_check_of_a_balancer_is_its_own_client() -> None:
    async with house(HASTY, proxy_protocol=BALANCER) as built:
        client = await built.client()
        await client.send_all(bytes.fromhex("0d0a0d0a000d0a515549540a20000000") + octets("header"))
        with trio.fail_after(5):
            while not built.brokers:  # noqa: ASYNC110
                await trio.sleep(0.001)
        (session,) = built.server.sessions.values()
        assert session.known.address == "127.0.0.1"


async def test_connections_without_a_header_yet_count_as_connections(autojump_clock: MockClock) -> None:
    async with house(HASTY, proxy_protocol=BALANCER) as built:
        for _ in range(LIMITS.connections):
            await built.client()
        await wait_all_tasks_blocked(0.01)
        late = await built.client()
        assert await rest(late) in CLOSED
        assert built.count("connections_refused_total", reason="limit") == 1
        await trio.sleep(HASTY.tls_handshake_timeout + 1)
        assert built.count("connections_refused_total", reason="proxy-header") == LIMITS.connections
        built.server.sessions.clear()


class TokenSession:
    """A session that the proxy has logged in by a token, which expires at 100."""

    def __init__(self, source: object) -> None:
        self.token_source = source
        self.login_ends_at = math.inf
        self.did: list[object] = []

    def has_expired(self, now: float) -> bool:
        return now >= 100

    def renew_token(self, credential: Credential) -> None:
        self.did.append(credential)

    def drain(self, reason: ConnectionForced) -> None:
        self.did.append(reason.reply_text)


@pytest.mark.parametrize(
    ("now", "expires_at", "has_ended"), [(99, None, None), (100, None, True), (100, 99, True), (100, 200, False)]
)
async def test_a_token_that_expires_without_a_successor_ends_its_sessions(
    now: float, expires_at: float | None, has_ended: bool | None
) -> None:
    metrics = Metrics()
    server = ProxyServer(Upstreams.of(unreachable, metrics), LIMITS, metrics)
    source = FixedCredential(Credential("", Secret("old")))
    successor = Credential("", Secret("new"), is_token=True, expires_at=expires_at or 0.0)
    if expires_at is not None:
        server._tokens[source] = successor
    session, other = TokenSession(source), TokenSession(None)
    server._check_token(now, session)  # type: ignore[arg-type]
    server._check_token(now, other)  # type: ignore[arg-type]
    text = "CONNECTION_FORCED - the proxy's token for the broker has expired, and its issuer gives no new one"
    assert session.did == ([] if has_ended is None else [text] if has_ended else [successor])
    assert other.did == []


async def test_tokens_of_earlier_configs_are_dropped() -> None:
    metrics = Metrics()
    server = ProxyServer(Upstreams.of(unreachable, metrics), LIMITS, metrics)
    used, unused = (FixedCredential(Credential("", Secret(each))) for each in ("used", "unused"))
    for source in (used, unused):
        server._tokens[source] = Credential("", Secret("token"), is_token=True)
    server.follow([used])
    assert set(server._tokens) == {used}


@pytest.mark.parametrize(("now", "texts"), [(99, []), (100, ["CONNECTION_FORCED - the token with which the client"])])
async def test_a_session_ends_with_the_token_of_its_client(now: float, texts: list[str]) -> None:
    metrics = Metrics()
    server = ProxyServer(Upstreams.of(unreachable, metrics), LIMITS, metrics)
    session = TokenSession(None)
    session.login_ends_at = 100
    server._check_token(now, session)  # type: ignore[arg-type]
    assert [str(each)[: len(text)] for each, text in zip(session.did, texts, strict=True)] == texts
