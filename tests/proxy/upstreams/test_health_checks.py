"""Active checks: what each kind finds, and what becomes of members that fail them."""

from __future__ import annotations

import errno
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from amqproxy.configuration.upstream_config import HealthCheck, UpstreamConfig
from amqproxy.proxy.upstream import Dialer
from amqproxy.proxy.upstreams.group import MemberEvent, UpstreamGroup
from amqproxy.proxy.upstreams.health_checks import HealthChecks, fault_of
from amqproxy.proxy.upstreams.member import Member
from amqproxy.sockets.transport import TransportBroken
from tests.transcripts.words import octets

LOGIN = {"user": "probe", "password_env": "PROBE"}


@asynccontextmanager
async def broker(*script: str) -> AsyncIterator[Member]:
    """A member that receives, sends the next line of its script, and so on; after it, it only receives."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    address = f"127.0.0.1:{listeners[0].socket.getsockname()[1]}"

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            for line in script:
                if not await stream.receive_some(4096):
                    return
                await stream.send_all(octets(line) if not line.startswith("HTTP") else line.encode())
            while await stream.receive_some(4096):
                pass

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        yield Member(address, Dialer(UpstreamConfig(address=address), 5.0))
        nursery.cancel_scope.cancel()


SOUND = ("connection.start", "connection.tune", "connection.open-ok", "connection.close-ok")


@pytest.mark.parametrize(
    ("check", "script", "fault"),
    [
        (HealthCheck(), (), ""),
        (HealthCheck(kind="tls"), (), ""),
        (HealthCheck(kind="amqp", **LOGIN), SOUND, ""),
        (HealthCheck(kind="amqp", timeout=0.1, **LOGIN), (), "no answer within 0.1 s"),
        (HealthCheck(kind="amqp", **LOGIN), ("connection.start", "connection.close 403"), "403 "),
        (HealthCheck(kind="http"), ("HTTP/1.1 200 OK\r\n\r\n{}",), ""),
        (
            HealthCheck(kind="http"),
            ("HTTP/1.1 503 Service Unavailable\r\n\r\n",),
            "/up answered '503 Service Unavailable'",
        ),
        (HealthCheck(kind="http"), ("HTTP/1.1 401 Unauthorized\r\n\r\n",), "/up answered '401 Unauthorized'"),
        (HealthCheck(kind="http", timeout=0.1), (), "no answer within 0.1 s"),
    ],
)
async def test_what_a_check_finds(check: HealthCheck, script: tuple[str, ...], fault: str) -> None:
    async with broker(*script) as member:
        if check.kind == "http":
            port = member.address.rpartition(":")[2]
            check = HealthCheck(kind="http", url=f"http://{{host}}:{port}/up", timeout=check.timeout)
        assert await fault_of(member, check, "secret") == fault


@pytest.mark.parametrize("kind", ["tcp", "tls"])
async def test_a_broker_that_is_not_there(kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    member = Member(address, Dialer(UpstreamConfig(address=address), 5.0))
    assert "refused" in (await fault_of(member, HealthCheck(kind=kind), "")).lower()  # type: ignore[arg-type]


class Yard:
    """A group whose members' health is what `faults` says."""

    def __init__(self, *names: str, closes: bool = True) -> None:
        self.faults = dict.fromkeys(names, "")
        self.members = [Member(f"{name}:1", self._dial_of(name)) for name in names]
        self.events: list[tuple[float, str, str]] = []
        self.closed: list[tuple[float, str, str]] = []
        check = HealthCheck(kind="tls", interval=5.0, timeout=2.0, fall=3, rise=2, closes=closes)
        self.group = UpstreamGroup("g", self.members, check=check, on_event=self._note)
        self.checks = HealthChecks(lambda: [self.group], self._close)

    def _dial_of(self, name: str) -> object:
        async def dial(ends: object) -> object:
            if self.faults[name] == "silent":
                await trio.sleep_forever()
            if self.faults[name]:
                raise TransportBroken(self.faults[name])
            return Closed()

        return dial

    def _note(self, group: UpstreamGroup, event: MemberEvent) -> None:
        self.events.append((trio.current_time(), event.member.address[0], str(event.standing)))

    async def _close(self, member: Member, reason: str) -> None:
        self.closed.append((trio.current_time(), member.address[0], reason))


class Closed:
    async def aclose(self) -> None: ...


async def test_a_stopped_member_is_noticed_within_the_stated_bound(autojump_clock: MockClock) -> None:
    yard = Yard("a", "b")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(yard.checks.run)
        await trio.sleep(11.0)
        yard.faults["a"] = "silent"
        began = trio.current_time()
        await trio.sleep(20.0)
        [(at, name, reason)] = yard.closed
        assert (name, reason) == ("a", "a:1 is down: no answer within 2 s")
        assert at - began <= 5 + 3 * (2 + 1)
        yard.faults["a"] = ""
        await trio.sleep(15.0)
        assert [event[1:] for event in yard.events] == [("a", "down"), ("a", "up")]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("names", "closes"), [("a", True), ("ab", False)])
async def test_clients_stay_where_nothing_is_gained(names: str, closes: bool, autojump_clock: MockClock) -> None:
    yard = Yard(*names, closes=closes)
    yard.faults["a"] = "refused"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(yard.checks.run)
        await trio.sleep(60.0)
        nursery.cancel_scope.cancel()
    assert yard.members[0].is_down
    assert yard.closed == []


async def test_members_that_fail_together_keep_their_clients_until_one_is_well(autojump_clock: MockClock) -> None:
    yard = Yard("a", "b")
    yard.faults = {"a": "refused", "b": "refused"}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(yard.checks.run)
        await trio.sleep(60.0)
        assert [event[1:] for event in yard.events] == [("a", "down"), ("b", "down")]
        assert yard.closed == []
        yard.faults["b"] = ""
        await trio.sleep(60.0)
        nursery.cancel_scope.cancel()
    assert [name for _, name, _ in yard.closed] == ["a"]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM])
async def test_a_lack_of_own_resources_is_no_fault_of_a_member(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lacking(*_: object, **__: object) -> None:
        raise OSError("all attempts to connect failed") from ExceptionGroup("all", [OSError(number, "lacking")])

    monkeypatch.setattr("amqproxy.proxy.upstreams.health_checks.trio.open_tcp_stream", lacking)
    assert await fault_of(Member("127.0.0.1:1"), HealthCheck(), "") == ""


async def test_a_reload_changes_the_checks(autojump_clock: MockClock) -> None:
    yard = Yard("a", "b")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(yard.checks.run)
        await trio.sleep(1.0)
        yard.group.check = None
        yard.checks.apply({"g": "other"})
        yard.faults["a"] = "refused"
        await trio.sleep(60.0)
        nursery.cancel_scope.cancel()
    assert not yard.members[0].is_down
    assert yard.checks.passwords == {"g": "other"}
