"""Clients get places on connections that the broker has accepted, and no others."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.amqp091.errors import NotAllowed
from amqproxy.amqp091.frame import HEADER, encode_frame, encode_method
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.methods import (
    BasicPublish,
    ChannelClose,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.wire import Table
from amqproxy.configuration.pool_config import PoolConfig
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp091.login_handshake import Amqp091LoginHandshake
from amqproxy.proxy.amqp091.pools.pools import Pools
from amqproxy.proxy.amqp091.pools.sharing import PinReason
from amqproxy.proxy.logins.attempt import LoginAttempt, LoginDenied
from amqproxy.proxy.logins.credential import Credential
from amqproxy.proxy.logins.handshake import Offer
from amqproxy.proxy.logins.successors import Successors
from amqproxy.proxy.upstream import Unreachable
from amqproxy.proxy.upstreams.client_pools import Connect, Leased, Pinning
from amqproxy.proxy.upstreams.member import Member
from amqproxy.proxy.upstreams.reach import BrokerLogin, Reached
from amqproxy.rules.context import Client
from amqproxy.rules.rewriting.secret import Secret
from amqproxy.sockets.transport import Transport, TransportBroken
from tests.proxy.amqp091.pools.scripted_broker import ScriptedBroker

LEAST = 8
"""Channels that are opened ahead."""


class Tokens:
    """A `CredentialSource` of tokens."""

    def __init__(self, token: str) -> None:
        self._successors = Successors()
        self.credential = self._credential(token)

    def _credential(self, token: str) -> Credential:
        return Credential("proxy", Secret(token), is_token=True)

    async def current(self) -> Credential:
        return self.credential

    def subscribe(self, renewed: Callable[[Credential], None]) -> Callable[[], None]:
        return self._successors.subscribe(renewed)

    def renew(self, token: str) -> None:
        self.credential = self._credential(token)
        self._successors.publish(self.credential)


class House:
    """The pools of one member, and the connections to its broker, in `brokers`."""

    def __init__(self, nursery: trio.Nursery, **config: Any) -> None:
        self.brokers: list[ScriptedBroker] = []
        self.accepts = {"right"}
        self.closes: dict[type[Method], ConnectionClose] = {}
        self.member = Member("mq:5672")
        self.delay = 0.0
        self.attempts = 0
        self.answers = True
        self.pools = Pools("main", PoolConfig(**config))
        self.pools.connect = Connect(lambda client: [self.member], self._reach)
        self.pools.start = lambda function: nursery.start_soon(function)

    async def _reach(self, members: list[Member], login: BrokerLogin) -> Reached:
        self.attempts += 1
        await trio.sleep(self.delay)
        if not self.answers:
            raise Unreachable("timeout", "does not answer")
        broker = ScriptedBroker(self.accepts, self.closes)
        self.brokers.append(broker)
        await broker.send(b"AMQP\x00\x00\x09\x01")
        await login(broker, await broker.receive())
        self.member.note_connected()
        return Reached(broker, b"", self.member)

    async def check(self, password: str = "right", user: str = "guest") -> Credential:
        identity = await self.pools.check(LoginAttempt("PLAIN", user, Secret(password), Client()))
        assert identity.credential is not None
        return identity.credential

    async def client(self, password: str = "right", *, vhost: str = "/", **facts: Any) -> Leased:
        """Return the place of a client that logs in and opens a virtual host."""
        return await self.lease(await self.check(password), vhost=vhost, **facts)

    async def lease(self, credential: Credential, *, vhost: str = "/", **facts: Any) -> Leased:
        handshake = Amqp091LoginHandshake(Offer(), 131_072)
        handshake.start(["PLAIN"])
        handshake.receive(encode_method(0, ConnectionStartOk(Table({}), "PLAIN", b"", "en_US")))
        handshake.tune()
        handshake.receive(encode_method(0, ConnectionTuneOk(100, 131_072, 0)) + encode_method(0, ConnectionOpen(vhost)))
        client = Client(user=credential.user, vhost=vhost, **facts)
        return await self.pools.lease(client, credential, handshake, Pinning(self._dial, lambda reason: None))

    async def _dial(self, member: Member) -> tuple[Transport, bytes]:
        raise TransportBroken("no connection of its own")

    @property
    def open_brokers(self) -> list[ScriptedBroker]:
        return [each for each in self.brokers if not each.is_closed]

    async def run_for(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            await trio.sleep(1)
            self.pools.keep()
        await wait_all_tasks_blocked()


@asynccontextmanager
async def house(**config: Any) -> Any:
    async with trio.open_nursery() as nursery:
        yield House(nursery, **config)
        nursery.cancel_scope.cancel()


async def methods_of(place: Leased) -> list[Any]:
    """Return the methods that a client is sent next."""
    data = await place.transport.receive()
    return [frame.method for frame in FrameReader(frame_max=0).feed(data)]


async def test_the_first_login_becomes_the_shared_connection(autojump_clock: MockClock) -> None:
    async with house() as found:
        places = [await found.client() for _ in range(10)]
        assert len(found.brokers) == 1
        assert len({id(place.transport.upstream) for place in places}) == 1
        assert len(found.brokers[0].of(ChannelOpen)) == LEAST


async def test_clients_that_come_at_once_are_checked_by_one_login(autojump_clock: MockClock) -> None:
    async with house() as found:
        found.delay = 1.0
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(found.client)
        assert len(found.brokers) == 1


async def test_a_wrong_password_opens_nothing(autojump_clock: MockClock) -> None:
    async with house() as found:
        await found.client()
        for number in range(50):
            with pytest.raises(LoginDenied):
                await found.check(f"wrong {number}")
        assert len(found.pools.pools) == 1
        assert len(found.pools.trust) == 1


async def test_the_broker_is_asked_again_after_a_while(autojump_clock: MockClock) -> None:
    async with house(trust=30.0) as found:
        await found.client()
        await trio.sleep(14)
        await found.client()
        assert len(found.brokers) == 1
        await trio.sleep(31)
        await found.client()
        assert len(found.brokers) == 2
        await wait_all_tasks_blocked()
        assert len(found.open_brokers) == 1


async def test_clients_that_keep_coming_never_wait_for_the_broker(autojump_clock: MockClock) -> None:
    async with house(trust=30.0) as found:
        await found.client()
        found.delay = 1.0
        for _ in range(100):
            began = trio.current_time()
            place = await found.client()
            assert trio.current_time() == began
            await place.transport.aclose()
            await trio.sleep(1)
        assert 4 <= len(found.brokers) <= 8
        assert len(found.open_brokers) == 1


async def test_a_password_that_is_revoked_while_clients_come_ends_them(autojump_clock: MockClock) -> None:
    async with house(trust=30.0) as found:
        place = await found.client()
        found.accepts.clear()
        await trio.sleep(20)
        await found.client()  # is still trusted, and has the broker asked
        with pytest.raises(TransportBroken, match="no longer accepts the credentials"):
            await place.transport.receive()
        with pytest.raises(LoginDenied):
            await found.client()


async def test_all_clients_are_told_when_their_password_is_revoked(autojump_clock: MockClock) -> None:
    async with house(trust=30.0) as found:
        place = await found.client()
        found.accepts.clear()
        await trio.sleep(31)
        with pytest.raises(LoginDenied):
            await found.client()
        with pytest.raises(TransportBroken, match="no longer accepts the credentials"):
            await place.transport.receive()


async def test_users_and_virtual_hosts_share_nothing(autojump_clock: MockClock) -> None:
    async with house() as found:
        found.accepts.add("other")
        places = [await found.client(), await found.client("other"), await found.client(vhost="v")]
        assert len({id(place.transport.upstream) for place in places}) == 3


async def test_a_full_connection_is_followed_by_another(autojump_clock: MockClock) -> None:
    async with house(clients_per_upstream=2, upstreams=3) as found:
        places = [await found.client() for _ in range(6)]
        assert len(found.open_brokers) == 3
        with pytest.raises(NotAllowed, match="pool exhausted: no place within 5 s"):
            await found.client()
        await places[0].transport.aclose()
        await found.client()
        assert len(found.open_brokers) == 3


async def test_no_more_connections_than_in_total(autojump_clock: MockClock) -> None:
    async with house(clients_per_upstream=1, upstreams=10, total=2, wait=1.0) as found:
        await found.client()
        await found.client()
        with pytest.raises(NotAllowed):
            await found.client()
        assert len(found.open_brokers) <= 3  # one has only checked the login


async def test_a_waiting_client_gets_the_place_of_one_that_leaves(autojump_clock: MockClock) -> None:
    async with house(clients_per_upstream=1, upstreams=1) as found:
        first = await found.client()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(found.client)
            await trio.sleep(1)
            await first.transport.aclose()


async def test_idle_connections_are_closed(autojump_clock: MockClock) -> None:
    async with house(idle=60.0) as found:
        place = await found.client()
        await found.run_for(100)
        assert len(found.open_brokers) == 1
        await place.transport.aclose()
        await found.run_for(100)
        assert found.open_brokers == []
        assert found.pools.pools == {}
        assert found.brokers[0].of(ConnectionClose)[0].reply_code == 200


async def test_old_connections_are_replaced(autojump_clock: MockClock) -> None:
    async with house(lifetime=1000.0) as found:
        first = await found.client()
        await found.run_for(1200)
        second = await found.client()
        assert second.transport.upstream is not first.transport.upstream
        await first.transport.aclose()
        await found.run_for(10)
        assert first.transport.upstream.is_over


async def test_clients_of_a_draining_member_are_not_given_places(autojump_clock: MockClock) -> None:
    async with house(wait=1.0) as found:
        place = await found.client()
        found.member.is_draining = True
        with pytest.raises(NotAllowed):
            await found.client()
        await place.transport.aclose()
        await found.run_for(5)
        assert found.open_brokers == []


async def test_pools_that_a_reload_has_removed_end_with_their_clients(autojump_clock: MockClock) -> None:
    async with house() as found:
        place = await found.client()
        found.pools.retire()
        await found.run_for(5)
        assert len(found.open_brokers) == 1
        await place.transport.aclose()
        await found.run_for(40)
        assert found.pools.pools == {}


async def test_a_token_is_renewed_on_shared_connections(autojump_clock: MockClock) -> None:
    async with house() as found:
        tokens = Tokens("right")
        found.pools.apply(found.pools.config, tokens)
        place = await found.lease(tokens.credential)
        found.accepts |= {"next"}
        tokens.renew("next")
        await wait_all_tasks_blocked()
        (renewal,) = found.brokers[0].of(ConnectionUpdateSecret)
        assert renewal.new_secret == b"next"
        other = await found.lease(tokens.credential)
        assert other.transport.upstream is place.transport.upstream


async def test_a_method_that_closes_the_connection_is_its_authors_alone(autojump_clock: MockClock) -> None:
    async with house() as found:
        author, bystander = await found.client(), await found.client()
        for place in (author, bystander):
            await place.transport.send(encode_method(1, ChannelOpen()))
            await methods_of(place)
        close = ConnectionClose(541, "INTERNAL_ERROR - transient queues are deprecated", 50, 10)

        found.closes[QueueDeclare] = close
        await author.transport.send(encode_method(1, QueueDeclare(0, "q")))
        assert await methods_of(author) == [close]
        with pytest.raises(TransportBroken):
            await author.transport.receive()
        with trio.move_on_after(10) as waited:
            await bystander.transport.receive()
        assert waited.cancelled_caught
        assert found.brokers[0].of(QueueDeclare) == []


async def test_the_same_method_is_tried_once_for_all(autojump_clock: MockClock) -> None:
    async with house() as found:
        places = [await found.client() for _ in range(10)]

        async def declare(place: Leased) -> None:
            await place.transport.send(encode_method(1, ChannelOpen()) + encode_method(1, QueueDeclare(0, "q")))

        async with trio.open_nursery() as nursery:
            for place in places:
                nursery.start_soon(declare, place)
        await wait_all_tasks_blocked()
        assert len(found.brokers[1].of(QueueDeclare)) == 1
        assert len(found.brokers[0].of(QueueDeclare)) == 9


async def test_a_lost_connection_is_told_to_all(autojump_clock: MockClock) -> None:
    async with house() as found:
        places = [await found.client() for _ in range(3)]
        found.brokers[0].hang_up()
        for place in places:
            with pytest.raises(TransportBroken, match="closed by the broker"):
                await place.transport.receive()
        assert (await found.client()).transport.upstream is not places[0].transport.upstream


async def test_a_hard_error_ends_the_author_with_the_brokers_words(autojump_clock: MockClock) -> None:
    async with house() as found:
        author, bystander = await found.client(address="10.0.0.1"), await found.client(address="10.0.0.2")
        await author.transport.send(encode_method(1, ChannelOpen()))
        await methods_of(author)
        close = found.closes[BasicPublish] = ConnectionClose(506, "RESOURCE_ERROR", 60, 40)
        header = encode_frame(HEADER, 1, ContentHeader(0).encode())
        await author.transport.send(encode_method(1, BasicPublish(0, "", "q")) + header)
        assert await methods_of(author) == [close]
        with pytest.raises(TransportBroken, match="RESOURCE_ERROR"):
            await bystander.transport.receive()
        assert found.pools.counts.collateral == 1
        await author.transport.aclose()
        again = await found.client(address="10.0.0.1")
        with pytest.raises(TransportBroken, match="no connection of its own"):
            await again.transport.send(encode_method(1, ChannelOpen()))


async def test_nobody_is_named_for_what_a_client_that_has_left_may_have_caused(autojump_clock: MockClock) -> None:
    async with house() as found:
        author, bystander = await found.client(address="10.0.0.1"), await found.client(address="10.0.0.2")
        for place in (author, bystander):
            await place.transport.send(encode_method(1, ChannelOpen()))
            await methods_of(place)
        (broker,) = (each for each in found.brokers if each.of(ChannelOpen))
        broker.takes_bytes = False
        broker.unanswered |= {BasicPublish, ChannelClose}
        message = encode_method(1, BasicPublish(0, "", "q")) + encode_frame(HEADER, 1, ContentHeader(0).encode())
        for place in (author, bystander):
            await place.transport.send(message)
        await author.transport.aclose()
        broker.write(0, ConnectionClose(506, "RESOURCE_ERROR", 60, 40))
        with pytest.raises(TransportBroken, match="RESOURCE_ERROR"):
            await bystander.transport.receive()
        assert found.pools.counts.collateral == 1
        await bystander.transport.aclose()
        again = await found.client(address="10.0.0.2")
        await again.transport.send(encode_method(1, ChannelOpen()))
        assert await methods_of(again) == [ChannelOpenOk()]


async def test_connections_that_are_too_old_do_not_exhaust_a_pool(autojump_clock: MockClock) -> None:
    async with house(lifetime=1000.0, upstreams=2) as found:
        kept = []
        for _ in range(4):
            kept.append(await found.client())
            await found.run_for(1200)
        assert len(found.open_brokers) == 4
        assert len({id(each.transport.upstream) for each in kept}) == 4


async def test_a_member_that_fails_is_used_if_nothing_else_is_left(autojump_clock: MockClock) -> None:
    async with house(wait=1.0) as found:
        found.member.eject(trio.current_time(), 600)
        first = await found.client()
        await found.run_for(5)
        second = await found.client()
        assert first.transport.upstream is second.transport.upstream


async def test_a_broker_that_shuts_down_proves_nothing_of_a_method(autojump_clock: MockClock) -> None:
    async with house() as found:
        author = await found.client()
        await author.transport.send(encode_method(1, ChannelOpen()))
        await methods_of(author)
        found.closes[QueueDeclare] = ConnectionClose(320, "CONNECTION_FORCED - broker forced connection closure", 0, 0)
        with pytest.raises(TransportBroken):
            await author.transport.send(encode_method(1, QueueDeclare(0, "q")))
        found.closes.clear()
        other = await found.client()
        await other.transport.send(encode_method(1, ChannelOpen()) + encode_method(1, QueueDeclare(0, "q")))
        assert [type(each) for each in await methods_of(other)] == [ChannelOpenOk, QueueDeclareOk]


async def test_a_method_is_not_sent_on_a_channel_that_has_become_anothers(autojump_clock: MockClock) -> None:
    async with house(clients_per_upstream=1000) as found:

        async def opened() -> Leased:
            place = await found.client()
            await place.transport.send(encode_method(1, ChannelOpen()))
            await methods_of(place)
            return place

        first, second = await opened(), await opened()
        number = second.transport.channels[1]
        found.delay = 1.0  # until the scout is there
        async with trio.open_nursery() as nursery:
            for place in (first, second):
                nursery.start_soon(place.transport.send, encode_method(1, QueueDeclare(0, "q")))
                await trio.sleep(0.1)
            found.brokers[0].write(number, ChannelClose(404, "NOT_FOUND", 60, 40))
            await trio.sleep(0.1)
            for _ in range(20 * LEAST):
                if (await opened()).transport.channels[1] == number:
                    break
            else:
                pytest.fail("the number is not given again")
        await wait_all_tasks_blocked()
        assert found.brokers[0].of(QueueDeclare) == []


async def test_a_client_that_was_pinned_often_shares_again_after_a_while(autojump_clock: MockClock) -> None:
    async with house() as found:

        async def is_pinned() -> bool:
            place = await found.client(address="10.0.0.1")
            try:
                await place.transport.send(encode_method(1, ChannelOpen()))
                if (await methods_of(place))[0] != ChannelOpenOk():
                    return True
                place.transport.pinned = PinReason.CONSUMES
                return False
            except TransportBroken:
                return True
            finally:
                await place.transport.aclose()

        assert [await is_pinned() for _ in range(5)] == [False, False, False, True, True]
        await trio.sleep(601)
        assert not await is_pinned()


async def test_a_member_has_recovered_when_a_connection_is_open_and_not_when_a_place_is_given(
    autojump_clock: MockClock,
) -> None:
    async with house(clients_per_upstream=1) as found:
        found.member.failures = 2
        await found.client()
        assert found.member.failures == 0
        found.member.failures = 2
        await found.client()  # opens another one
        assert found.member.failures == 0


@pytest.mark.parametrize("is_known", [False, True], ids=["login", "place"])
async def test_a_broker_that_does_not_answer_is_waited_for_once(autojump_clock: MockClock, is_known: bool) -> None:
    """Also if the client that has come first leaves; one beside them that has its place notices nothing."""
    async with house(clients_per_upstream=1, wait=60.0) as found:
        beside = await found.client("right")
        found.delay, found.answers, before = 10.0, False, found.attempts
        if not is_known:
            found.accepts.add("other")
        failed: list[float] = []

        async def come() -> None:
            with pytest.raises(Unreachable, match="does not answer"):
                await found.client("right" if is_known else "other")
            failed.append(trio.current_time())

        async with trio.open_nursery() as nursery:
            first = trio.CancelScope()

            async def come_first() -> None:
                with first:
                    await come()

            nursery.start_soon(come_first)
            for _ in range(20):
                await trio.sleep(0.1)
                nursery.start_soon(come)
            first.cancel()
            await beside.transport.send(encode_method(1, ChannelOpen()))
            assert await methods_of(beside) == [ChannelOpenOk()]
        assert found.attempts == before + 1
        assert set(failed) == {10.0}
        found.delay, found.answers = 0.0, True
        await found.client("right" if is_known else "other")


async def test_a_scout_that_cannot_be_opened_is_waited_for_once(autojump_clock: MockClock) -> None:
    async with house() as found:
        places = [await found.client() for _ in range(10)]
        beside = await found.client()
        for place in [*places, beside]:
            await place.transport.send(encode_method(1, ChannelOpen()))
            await methods_of(place)
        found.delay, found.answers, before = 2.0, False, found.attempts
        began = trio.current_time()

        async def declare(place: Leased, queue: str) -> None:
            with pytest.raises(TransportBroken, match="does not answer"):
                await place.transport.send(encode_method(1, QueueDeclare(0, queue)))

        async with trio.open_nursery() as nursery:
            for number, place in enumerate(places):
                nursery.start_soon(declare, place, f"q{number // 2}")
        assert (found.attempts - before, trio.current_time() - began) == (1, 2.0)
        found.delay, found.answers = 0.0, True
        await beside.transport.send(encode_method(1, QueueDeclare(0, "q0")))
        assert await methods_of(beside) == [QueueDeclareOk("q0", 0, 0)]


@pytest.mark.parametrize("is_first", [True, False], ids=["the first connection", "a further one"])
async def test_a_token_that_is_renewed_during_a_login_reaches_that_connection(
    autojump_clock: MockClock, is_first: bool
) -> None:
    async with house(clients_per_upstream=1) as found:
        tokens = Tokens("right")
        found.pools.apply(found.pools.config, tokens)
        beside = await found.client()
        if not is_first:
            await found.lease(tokens.credential)
        found.delay = 2.0

        async def renew() -> None:
            await trio.sleep(1)
            found.accepts |= {"next"}
            tokens.renew("next")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(renew)
            place = await found.lease(tokens.credential)
        await wait_all_tasks_blocked()
        assert [each.new_secret for each in found.brokers[-1].of(ConnectionUpdateSecret)] == [b"next"]
        assert found.brokers[0].of(ConnectionUpdateSecret) == []  # it has a login of its client's own
        for each in (place, beside):
            await each.transport.send(encode_method(1, ChannelOpen()))
            assert await methods_of(each) == [ChannelOpenOk()]


async def test_the_token_of_a_login_is_not_sent_again(autojump_clock: MockClock) -> None:
    async with house() as found:
        tokens = Tokens("right")
        found.pools.apply(found.pools.config, tokens)
        found.accepts |= {"next"}
        tokens.renew("next")
        await found.lease(tokens.credential)
        await wait_all_tasks_blocked()
        assert found.brokers[0].of(ConnectionUpdateSecret) == []


class Recorder:
    """A tap that notes the methods on shared connections, with their senders."""

    def __init__(self) -> None:
        self.methods: dict[int, list[tuple[Peer, str]]] = {}
        self.ends: list[tuple[int, str]] = []

    def saw_shared(self, leg: Any, header: bytes = b"") -> None:
        assert header == b"AMQP\x00\x00\x09\x01"
        self.methods[leg.number] = []

    def saw_frames(self, session: Any, sender: Peer, frames: Any, note: Any = None) -> None:
        self.methods[session.number] += [(sender, frame.method.name) for frame in frames]

    def saw_end(self, session: Any, reason: str) -> None:
        self.ends.append((session.number, reason))


async def test_shared_connections_are_shown_to_recorders(autojump_clock: MockClock) -> None:
    async with house() as found:
        recorder = Recorder()
        found.pools.legs.add(recorder, lambda error: None)
        place = await found.client()
        await place.transport.send(encode_method(1, ChannelOpen()) + encode_method(1, QueueDeclare(0, "q")))
        await wait_all_tasks_blocked()
        opened = [(CLIENT, "channel.open")] * LEAST + [(SERVER, "channel.open-ok")] * LEAST
        login = [
            (SERVER, "connection.start"),
            (CLIENT, "connection.start-ok"),
            (SERVER, "connection.tune"),
            (CLIENT, "connection.tune-ok"),
            (CLIENT, "connection.open"),
            (SERVER, "connection.open-ok"),
        ]
        shared, scout = recorder.methods[1], recorder.methods[2]
        assert shared == [*login, *opened, (CLIENT, "channel.open"), (SERVER, "channel.open-ok")]
        assert [each for each in scout if each[1].startswith("queue")] == [
            (CLIENT, "queue.declare"),
            (SERVER, "queue.declare-ok"),
        ]
        found.brokers[0].hang_up()
        await wait_all_tasks_blocked()
        assert recorder.ends == [(1, "closed by the broker")]
