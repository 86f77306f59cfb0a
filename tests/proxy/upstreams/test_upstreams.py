"""Clients reach the first member that answers; what members do here are words: see `Fake`."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest
import trio
from trio.testing import MockClock

from amqproxy.configuration.upstream_config import Ejection, RouteConfig
from amqproxy.proxy.admission_queue import AdmissionQueue, QueueFull
from amqproxy.proxy.logins.credential import CredentialSource
from amqproxy.proxy.upstream import Unreachable
from amqproxy.proxy.upstreams.client_pools import LOGIN_TIMEOUT
from amqproxy.proxy.upstreams.group import UpstreamGroup
from amqproxy.proxy.upstreams.member import Member, Standing
from amqproxy.proxy.upstreams.reach import MemberLogin, Reached
from amqproxy.proxy.upstreams.routes import Route, Routes
from amqproxy.proxy.upstreams.upstreams import Upstreams
from amqproxy.rules.context import Client
from amqproxy.sockets.transport import Address, SocketTransport, Transport
from amqproxy.taps.metrics import Metrics
from tests.proxy.stage import connected

HEADER = b"AMQP\0\0\x09\x01"
ENDS: tuple[Address, Address] = ("10.0.0.9", 4000), ("10.0.0.1", 5672)


class Fake(Member):
    """A member that `answers`, `refuses`, is a `black hole`, is `silent` behind its port, `hangs up` or `resets`."""

    def __init__(self, address: str, does: str = "answers") -> None:
        super().__init__(address, self._open)
        self.does = does
        self.ends: list[socket.socket] = []

    async def _open(self, ends: tuple[Address, Address] | None) -> Transport:
        if self.does == "refuses":
            raise Unreachable("refused", f"{self.address} refused the connection")
        if self.does == "black hole":
            await trio.sleep_forever()
        theirs, ours = connected(tcp=self.does == "resets")
        self.ends.append(theirs)
        if self.does == "answers":
            theirs.send(b"start of " + self.address.encode())
        if self.does == "hangs up":
            theirs.shutdown(socket.SHUT_WR)
        if self.does == "resets":
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            theirs.close()
        return SocketTransport(ours)


class Fleet:
    """One group of fakes, which takes its clients in order."""

    def __init__(self, *do: str, timeout: float = 2.0) -> None:
        self.metrics = Metrics()
        self.fakes = [Fake("abcdefgh"[place], does) for place, does in enumerate(do)]
        for place, fake in enumerate(self.fakes):
            fake.priority = place
        self.group = UpstreamGroup(
            "blue", self.fakes, connect_timeout=timeout, ejection=Ejection(failures=2), clock=trio.current_time
        )
        self.upstreams = Upstreams(Routes(self.group), self.metrics)
        self.is_gone = False

    async def reach(self) -> Reached:
        return await self.upstreams.reach_for(ENDS, "", lambda: self.is_gone)(
            HEADER, Client(address="10.0.0.9"), nullcontext
        )

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"amqproxy_{name}", labels) or 0

    def close(self) -> None:
        for fake in self.fakes:
            for end in fake.ends:
                end.close()


async def test_the_header_is_sent_and_the_answer_kept() -> None:
    fleet = Fleet("answers", "answers")
    reached = await fleet.reach()
    assert (reached.answer, reached.member, reached.upstream) == (b"start of a", fleet.fakes[0], "blue")
    assert fleet.fakes[0].ends[0].recv(100) == HEADER
    assert (fleet.fakes[0].connections, fleet.fakes[1].connections) == (1, 0)
    await reached.transport.aclose()
    fleet.close()


@pytest.mark.parametrize(
    ("does", "kind", "seconds"),
    [
        ("refuses", "refused", 0.0),
        ("hangs up", "no answer", 0.0),
        ("black hole", "timeout", 2.0),
        ("silent", "no answer", 2.0),
    ],
)
async def test_the_next_member_takes_the_client(
    does: str, kind: str, seconds: float, autojump_clock: MockClock
) -> None:
    fleet = Fleet(does, does, "answers")
    began = trio.current_time()
    reached = await fleet.reach()
    assert reached.answer == b"start of c"
    assert trio.current_time() - began == pytest.approx(2 * seconds)
    assert [fake.failures_by_kind[kind] for fake in fleet.fakes] == [1, 1, 0]
    assert [fake.retries for fake in fleet.fakes] == [1, 1, 0]
    assert fleet.count("upstream_failures_total", reason=kind) == 2
    assert fleet.count("upstream_member_retries_total", upstream="blue", member="a") == 1
    await reached.transport.aclose()
    fleet.close()


async def test_a_member_that_resets_the_connection() -> None:
    fleet = Fleet("resets", "answers")
    reached = await fleet.reach()
    assert reached.answer == b"start of b"
    assert fleet.fakes[0].last_failure.startswith("a hung up")
    await reached.transport.aclose()
    fleet.close()


async def test_the_last_member_has_the_rest_of_the_handshake(autojump_clock: MockClock) -> None:
    fleet = Fleet("silent")
    with trio.move_on_after(15.0) as handshake:
        await fleet.reach()
    assert handshake.cancelled_caught
    assert fleet.fakes[0].failures_by_kind["no answer"] == 1
    assert fleet.fakes[0].last_failure == "a has not answered the protocol header"
    fleet.close()


@pytest.mark.parametrize("does", ["silent", "answers"])
async def test_a_login_for_many_clients_has_a_deadline_of_its_own(does: str, autojump_clock: MockClock) -> None:
    """Nobody's handshake ends it, and all of them would wait for it."""
    fleet = Fleet("refuses", does, timeout=60.0)

    async def login(transport: Transport, answer: bytes) -> bytes:
        await trio.sleep_forever()
        raise AssertionError

    with pytest.raises(Unreachable, match="b did not") as failed:
        await fleet.upstreams._reach_for_pools(fleet.group, list(fleet.fakes), login)
    assert (failed.value.kind, trio.current_time()) == ("no answer", LOGIN_TIMEOUT)
    assert fleet.fakes[1].failures_by_kind["no answer"] == 1
    assert all(end.recv(100) in (b"", HEADER) for end in fleet.fakes[1].ends)
    fleet.close()


async def test_a_client_that_leaves_early_is_no_failure_of_the_member(autojump_clock: MockClock) -> None:
    fleet = Fleet("silent")
    with trio.move_on_after(1.0):
        await fleet.reach()
    assert fleet.fakes[0].failures == 0
    fleet.close()


async def test_nobody_answers() -> None:
    fleet = Fleet("refuses", "refuses")
    with pytest.raises(Unreachable, match="b refused the connection") as raised:
        await fleet.reach()
    assert (raised.value.kind, raised.value.upstream) == ("refused", "blue")
    assert fleet.count("upstream_failures_total", reason="refused") == 1  # the session counts the last one


async def test_no_member_takes_clients() -> None:
    fleet = Fleet("answers")
    fleet.fakes[0].is_draining = True
    with pytest.raises(Unreachable, match="blue has no member that takes clients"):
        await fleet.reach()
    assert not fleet.upstreams.is_ready()


async def test_no_further_member_is_tried_for_a_client_that_has_hung_up() -> None:
    fleet = Fleet("refuses", "answers")
    fleet.is_gone = True
    with pytest.raises(Unreachable, match="a refused"):
        await fleet.reach()


async def test_a_member_that_fails_repeatedly_is_spared(autojump_clock: MockClock) -> None:
    fleet = Fleet("black hole", "answers", "answers")
    for _ in range(2):
        await (await fleet.reach()).transport.aclose()
    assert fleet.fakes[0].standing(trio.current_time()) is Standing.EJECTED
    began = trio.current_time()
    await (await fleet.reach()).transport.aclose()
    assert trio.current_time() == began
    assert fleet.count("upstream_member_state", upstream="blue", member="a", state="ejected") == 1
    assert fleet.count("upstream_member_ejections_total", upstream="blue", member="a") == 1
    assert fleet.count("upstream_member_connections", upstream="blue", member="b") == 3
    fleet.close()


async def test_a_virtual_host_that_is_down_ejects(autojump_clock: MockClock) -> None:
    fleet = Fleet("answers", "answers")
    for _ in range(2):
        reached = await fleet.reach()
        assert reached.member is not None
        reached.member.report_failure("vhost down", "vhost '/' is down", trio.current_time())
        await reached.transport.aclose()
    assert fleet.fakes[0].standing(trio.current_time()) is Standing.EJECTED
    assert fleet.count("upstream_member_failures_total", upstream="blue", member="a", reason="vhost down") == 2
    fleet.close()


async def test_a_route_leads_to_another_group() -> None:
    fleet, other = Fleet("answers"), Fleet("answers")
    other.group.name = "green"
    route = Route(RouteConfig(upstream="green", when='client.address == "10.0.0.9"'), other.group)
    fleet.upstreams.apply(Routes(fleet.group, routes=[route]))
    reached = await fleet.reach()
    assert reached.upstream == "green"
    assert reached.member is other.fakes[0]
    await reached.transport.aclose()
    fleet.close()
    other.close()


async def test_names_for_the_log() -> None:
    assert Fleet("answers").upstreams.description == "a"
    assert Fleet("answers", "answers").upstreams.description == "blue"
    fleet = Fleet("answers")
    dial = fleet.upstreams.dial_of_member("a")
    assert dial is not None
    await (await dial()).aclose()
    assert fleet.upstreams.dial_of_member("x") is None
    fleet.close()


async def test_a_storm_is_let_through_at_the_rate_of_all_members(autojump_clock: MockClock) -> None:
    """Whatever of the wait would exceed the deadline of a handshake, it is suspended meanwhile."""
    fleet = Fleet("answers", "answers")
    fleet.fakes[1].priority = 0
    fleet.group.logins = AdmissionQueue(10.0, most=1000)
    held: list[str] = []

    @contextmanager
    def unhurried() -> Iterator[None]:
        held.append("wait")
        yield

    async def one(number: int) -> None:
        reached = await fleet.upstreams.reach_for(ENDS, "", lambda: False)(HEADER, Client(address="a"), unhurried)
        await reached.transport.aclose()

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for number in range(100):
            nursery.start_soon(one, number)
        await trio.testing.wait_all_tasks_blocked()
        assert fleet.count("upstream_login_queue", upstream="blue") == len(held) == 98
    assert trio.current_time() - began == pytest.approx(100 / (10 * 2), abs=0.2)
    assert [fake.picks for fake in fleet.fakes] == [50, 50]
    assert fleet.count("upstream_login_wait_seconds_count", upstream="blue") == 100
    fleet.close()


async def test_too_many_waiting_clients_are_refused(autojump_clock: MockClock) -> None:
    fleet = Fleet("answers")
    fleet.group.logins = AdmissionQueue(0.1, most=0)
    await (await fleet.reach()).transport.aclose()
    with pytest.raises(QueueFull):
        await fleet.reach()
    assert fleet.count("upstream_logins_refused_total", upstream="blue") == 1
    fleet.close()


async def test_a_member_whose_virtual_host_is_down_is_passed_over_if_the_proxy_logs_in() -> None:
    fleet = Fleet("answers", "answers")

    async def log_in(transport: Transport, answer: bytes) -> bytes:
        if answer == b"start of a":
            raise Unreachable("vhost down", "530 vhost '/' is down")
        return b"open-ok"

    async def login(source: CredentialSource | None) -> MemberLogin:
        return log_in

    reach = fleet.upstreams.reach_for(ENDS, "", lambda: False)
    reached = await reach(HEADER, Client(), nullcontext, login)
    assert (reached.answer, reached.member) == (b"open-ok", fleet.fakes[1])
    assert fleet.fakes[0].failures_by_kind["vhost down"] == 1
    fleet.fakes[0].ends[0].recv(100)
    assert fleet.fakes[0].ends[0].recv(100) == b""  # it is left at once
    await reached.transport.aclose()
    fleet.close()


async def test_a_token_that_comes_late_counts_against_no_member(autojump_clock: MockClock) -> None:
    fleet = Fleet("answers", timeout=2.0)

    async def login(source: CredentialSource | None) -> MemberLogin:
        await trio.sleep_forever()
        raise AssertionError

    reach = fleet.upstreams.reach_for(ENDS, "", lambda: False)
    with trio.move_on_after(15.0):
        await reach(HEADER, Client(), nullcontext, login)
    assert sum(fleet.fakes[0].failures_by_kind.values()) == 0
    assert fleet.fakes[0].ends == [], "it is not asked before"
    fleet.close()


async def test_a_switch_diverts_a_client_from_its_route() -> None:
    fleet, green = Fleet("answers"), Fleet("answers")
    fleet.upstreams.divert = lambda group, client: green.group if client.address == "10.0.0.9" else group
    reached = await fleet.reach()
    assert reached.member is green.fakes[0]
    assert fleet.fakes[0].picks == 0
    await reached.transport.aclose()
    fleet.close()
    green.close()
