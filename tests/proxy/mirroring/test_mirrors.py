"""Copies sent by a mirror publisher to the integrated broker, which another client then gets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
import trio

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicPublish, ConnectionStartOk
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.broker.access.permissions import Permission
from amqproxy.broker.broker import Broker
from amqproxy.broker.server.server import BrokerServer
from amqproxy.proxy.mirroring.mirror_drops import DropReason
from amqproxy.proxy.mirroring.mirror_publisher import IDLE_TIMEOUT, MirrorLogin
from amqproxy.proxy.mirroring.mirrors import MAX_MIRROR_PUBLISHERS, Mirrors
from amqproxy.proxy.upstream import Unreachable
from amqproxy.rules.verdict import MirroredCopy
from amqproxy.sockets.transport import SocketTransport, Transport

GUEST = MirrorLogin(ConnectionStartOk(response=b"\0guest\0guest"), "/")


class Desk:
    """Mirrors, the broker that they send to, and what was dropped."""

    def __init__(self) -> None:
        self.broker = Broker()
        self.dropped = 0
        self.reasons: list[DropReason] = []
        self.is_away = False
        self.dialled = 0

    def drop(self, reason: DropReason, count: int) -> None:
        self.dropped += count
        self.reasons.append(reason)

    def queue(self, name: str) -> list[bytes]:
        return [message.body for message in self.broker.vhosts["/"].queues[name]]

    async def has(self, name: str, count: int) -> None:
        while len(self.queue(name)) < count:  # noqa: ASYNC110
            await trio.sleep(0.01)


@asynccontextmanager
async def mirrors(backlog: int = 100, timeout: float = 20) -> AsyncIterator[tuple[Mirrors, Desk]]:
    desk = Desk()
    server = BrokerServer(desk.broker)

    async def dial() -> Transport:
        desk.dialled += 1
        if desk.is_away:
            raise Unreachable("refused", "no listener")
        return SocketTransport(server.open())

    with trio.fail_after(timeout):
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run)
            found = Mirrors(
                {None: dial, "other": dial}, {"other": GUEST._replace(vhost="")}, backlog, 1 << 30, desk.drop
            )
            await nursery.start(found.run)
            for name in ("copies", "others"):
                desk.broker.vhosts["/"].declare_queue(
                    name, None, durable=False, exclusive=False, auto_delete=False, arguments=Table(), now=0.0
                )
            yield found, desk
            nursery.cancel_scope.cancel()


def copy(body: bytes, key: str = "copies", exchange: str = "", upstream: str | None = None) -> MirroredCopy:
    return MirroredCopy(
        Command(7, BasicPublish(exchange=exchange, routing_key=key), Properties(priority=1), body), upstream
    )


async def test_copies_come_to_their_broker_in_order() -> None:
    async with mirrors() as (found, desk):
        for number in range(50):
            found.put(copy(b"%d" % number), GUEST)
        await desk.has("copies", 50)
        assert desk.queue("copies") == [b"%d" % number for number in range(50)]
        found.put(copy(b"there", "others", upstream="other"), GUEST)
        await desk.has("others", 1)
        assert (desk.dropped, desk.dialled) == (0, 2)


async def test_upstreams_may_be_replaced() -> None:
    async with mirrors() as (found, desk):
        found.put(copy(b"before", "others", upstream="other"), GUEST)
        await desk.has("others", 1)
        dialled = 0
        dial = found._dials["other"]

        async def another() -> Transport:
            nonlocal dialled
            dialled += 1
            return await dial()

        found.replace({"new": another}, {"new": GUEST._replace(vhost="")})
        found.put(copy(b"there", "others", upstream="new"), GUEST)
        await desk.has("others", 2)
        assert dialled == 1
        found.put(copy(b"gone", "others", upstream="other"), GUEST)
        found.put(copy(b"own"), GUEST)
        await desk.has("copies", 1)
        assert desk.dropped == 1


async def test_more_than_may_wait_are_dropped_and_counted() -> None:
    async with mirrors(backlog=3) as (found, desk):
        for _ in range(5):
            found.put(copy(b"x"), GUEST)
        await desk.has("copies", 3)
        assert desk.dropped == 2


async def test_an_exchange_that_is_not_there_costs_one_copy() -> None:
    async with mirrors() as (found, desk):
        found.put(copy(b"lost", exchange="nowhere"), GUEST)
        while not desk.dropped:  # noqa: ASYNC110
            await trio.sleep(0.01)
        found.put(copy(b"found"), GUEST)
        await desk.has("copies", 1)


async def test_a_broker_that_is_away_is_tried_again(autojump_clock: trio.testing.MockClock) -> None:
    async with mirrors() as (found, desk):
        desk.is_away = True
        found.put(copy(b"lost"), GUEST)
        await trio.sleep(0.1)
        assert desk.dropped == 1
        desk.is_away = False
        found.put(copy(b"found"), GUEST)
        await desk.has("copies", 1)


async def test_a_broker_that_refuses_the_login() -> None:
    async with mirrors() as (found, desk):
        found.put(copy(b"lost"), GUEST._replace(vhost="nowhere"))
        while not desk.dropped:  # noqa: ASYNC110
            await trio.sleep(0.01)


async def test_an_unknown_upstream() -> None:
    async with mirrors() as (found, desk):
        found.put(copy(b"lost", upstream="unknown"), GUEST)
        assert desk.dropped == 1


def tenant(number: int) -> MirrorLogin:
    """A separate login: guest, on another virtual host."""
    return GUEST._replace(vhost=f"v{number}")


async def test_one_login_more_retires_the_one_that_has_been_idle_longest() -> None:
    async with mirrors() as (found, desk):
        for number in range(MAX_MIRROR_PUBLISHERS + 2):
            desk.broker.add_vhost(f"v{number}")
            desk.broker.users["guest"].permit(f"v{number}", Permission("", ".*", ""))
            desk.broker.vhosts[f"v{number}"].declare_queue(
                "copies", None, durable=False, exclusive=False, auto_delete=False, arguments=Table(), now=0.0
            )

        async def has(number: int, count: int) -> None:
            while len(list(desk.broker.vhosts[f"v{number}"].queues["copies"])) < count:  # noqa: ASYNC110
                await trio.sleep(0.01)

        for number in range(MAX_MIRROR_PUBLISHERS):
            found.put(copy(b"x"), tenant(number))
        for number in range(MAX_MIRROR_PUBLISHERS):
            await has(number, 1)
        found.put(copy(b"x"), tenant(0))
        await has(0, 2)
        found.put(copy(b"x"), tenant(MAX_MIRROR_PUBLISHERS))  # instead of 1
        await has(MAX_MIRROR_PUBLISHERS, 1)
        found.put(copy(b"x"), tenant(0))
        await has(0, 3)
        assert (desk.dropped, desk.dialled) == (0, MAX_MIRROR_PUBLISHERS + 1)
        found.put(copy(b"x"), tenant(1))
        await has(1, 2)
        assert (desk.dropped, desk.dialled) == (0, MAX_MIRROR_PUBLISHERS + 2)
        while len(desk.broker.connections) > MAX_MIRROR_PUBLISHERS:  # noqa: ASYNC110
            await trio.sleep(0.01)


async def test_logins_that_all_have_something_to_send_are_not_retired(
    log: list[structlog.typing.EventDict],
) -> None:
    async with mirrors() as (found, desk):
        for number in range(MAX_MIRROR_PUBLISHERS + 3):
            found.put(copy(b"x"), tenant(number))
        assert desk.reasons == [DropReason.LOGINS] * 3
        assert [event["event"] for event in log] == ["copies dropped"]


async def test_no_connection_is_kept_without_a_user(autojump_clock: trio.testing.MockClock) -> None:
    async with mirrors(timeout=1000) as (found, desk):
        found.put(copy(b"x"), GUEST)
        await desk.has("copies", 1)
        assert len(desk.broker.connections) == 1
        with trio.move_on_after(IDLE_TIMEOUT + 1):
            await trio.sleep_forever()
        assert len(desk.broker.connections) == 0
        found.put(copy(b"y"), GUEST)
        await desk.has("copies", 2)
        assert (desk.dropped, desk.dialled) == (0, 2)


async def test_a_copy_that_cannot_be_made_is_nobodys_trouble() -> None:
    async with mirrors() as (found, desk):
        found.put(copy(b"lost", exchange="x" * 300), GUEST)
        found.put(copy(b"found"), GUEST)
        await desk.has("copies", 1)
        assert desk.reasons == [DropReason.INVALID]
