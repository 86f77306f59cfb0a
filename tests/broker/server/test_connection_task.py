"""One client's bytes, both ways, over real sockets: what waits, and for which client."""

import gc
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicPublish,
    ConfirmSelect,
    ConnectionClose,
    ConnectionCloseOk,
    Method,
    QueueDeclare,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.broker.amqp091.channel import BrokerChannel
from amqproxy.broker.amqp091.connection import Amqp091Connection
from amqproxy.broker.amqp091.deliveries import Deliveries
from amqproxy.broker.amqp091.publisher import Publisher
from amqproxy.broker.broker import Broker
from amqproxy.broker.connections.closing import CLOSING_TIME, PENALTY
from amqproxy.broker.connections.output import HIGH_WATER, OutputBuffer
from amqproxy.broker.queues.consumer import Consumer
from amqproxy.broker.server import connection_task as attendant_module
from amqproxy.broker.server import dialects, protocol_choice
from amqproxy.broker.server.connection_task import BLOCKED_LOOK, STALLED_TIME, ConnectionTask
from amqproxy.broker.server.dialects import FIRST
from amqproxy.broker.server.send_scheduler import SendScheduler
from amqproxy.broker.server.timer_task import TimerTask
from amqproxy.sockets.transport import SocketTransport, Transport
from tests.broker.client import Client, noted
from tests.broker.server.handshake import OPENING, opening
from tests.proxy.stage import connected
from tests.sockets.whole_transport import WholeTransport

GOODBYE = encode_method(0, ConnectionClose(200, "bye"))


def encoded(*methods: Method) -> bytes:
    return b"".join(encode_method(1, method) for method in methods)


def publish(body: bytes, queue: str = "q") -> bytes:
    return Command(1, BasicPublish(routing_key=queue), Properties(), body).encode(131_072)


Clock = trio.testing.MockClock
"""All ends of all sockets are in the one loop: when it is idle, nothing more is to come, and no time is lost."""


class House:
    """A broker, and what attends to its clients."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.broker = Broker()
        self.send_scheduler = SendScheduler()
        self.nursery = nursery
        self.clients: list[trio.abc.AsyncResource] = []
        nursery.start_soon(self.send_scheduler.run)

    def serve(self, transport: Transport) -> ConnectionTask:
        connection_task = ConnectionTask(self.broker, self.send_scheduler, transport, self.nursery)
        self.nursery.start_soon(connection_task.run)
        return connection_task

    def over(self, sock: socket.socket) -> trio.SocketStream:
        client = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
        self.clients.append(client)
        return client

    async def tcp_client(self, opening: bytes = OPENING) -> tuple[trio.SocketStream, ConnectionTask]:
        """The same over TCP, which knows a reset."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            ours = socket.create_connection(listener.getsockname())
            theirs, _ = listener.accept()
        theirs.setblocking(False)
        connection_task = self.serve(SocketTransport(theirs, turn=1))
        client = self.over(ours)
        if opening:
            await client.send_all(opening)
            await hush(client)
        return client, connection_task

    async def client(self, heartbeat: int = 0) -> tuple[trio.SocketStream, ConnectionTask]:
        """A client with channel 1 open."""
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        connection_task = self.serve(SocketTransport(theirs, turn=1))
        client = self.over(ours)
        await client.send_all(opening(heartbeat))
        await hush(client)
        return client, connection_task


async def hush(client: trio.abc.ReceiveStream) -> bytes:
    """All that comes until no more does."""
    received = b""
    with trio.move_on_after(0.05) as patience:
        while data := await client.receive_some():
            received += data
            patience.deadline = trio.current_time() + 0.05
    return received


@asynccontextmanager
async def house() -> AsyncIterator[House]:
    async with trio.open_nursery() as nursery:
        home = House(nursery)
        yield home
        for client in home.clients:
            await trio.aclose_forcefully(client)
        nursery.cancel_scope.cancel()


async def test_what_one_sends_reaches_another(autojump_clock: Clock) -> None:
    async with house() as home:
        one, _ = await home.client()
        other, _ = await home.client()
        await one.send_all(encoded(QueueDeclare(queue="q"), BasicConsume(queue="q", consumer_tag="c", no_ack=True)))
        await hush(one)
        await other.send_all(publish(b"hello") * 3)
        assert (await hush(one)).count(b"hello") == 3


async def test_who_does_not_read_is_delivered_no_more_than_the_mark_and_slows_no_other(autojump_clock: Clock) -> None:
    body = bytes(100_000)
    async with house() as home:
        slow, connection_task = await home.client()
        quick, _ = await home.client()
        consume = BasicConsume(queue="q", consumer_tag="c", no_ack=True)
        await slow.send_all(encoded(QueueDeclare(queue="q"), consume))
        await hush(slow)
        count = 3 * HIGH_WATER // len(body)
        await quick.send_all(publish(body) * count)
        answered = await quick_answer(quick)
        assert answered
        depth = home.broker.vhosts["/"].queues["q"].message_count
        assert 0 < connection_task.connection.waiting <= HIGH_WATER + len(body) + 1000
        assert depth * len(body) > HIGH_WATER  # less what the kernel has taken
        got = 0
        while got < count * len(body):
            got += len(await slow.receive_some())
        assert home.broker.vhosts["/"].queues["q"].message_count == 0


async def quick_answer(client: trio.SocketStream) -> bytes:
    await client.send_all(encoded(QueueDeclare(queue="other", exclusive=True)))
    return await hush(client)


async def test_who_does_not_read_answers_is_not_listened_to(
    autojump_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attendant_module, "MOST_UNSENT", 1_000_000)
    body = bytes(100_000)
    async with house() as home:
        client, connection_task = await home.client()
        await client.send_all(encoded(QueueDeclare(queue="q")) + publish(body) * 100)
        await hush(client)
        asked = encoded(BasicGet(queue="q", no_ack=True)) * 50
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def ask() -> None:
                for start in range(0, len(asked), 20):
                    await client.send_all(asked[start : start + 20])
                    await trio.sleep(0.001)

        assert 1_000_000 < connection_task.connection.waiting < 2_000_000
        got = 0
        while got < 50 * len(body):
            got += len(await client.receive_some())


async def how_it_ends(client: trio.SocketStream) -> str:
    """ "reset", or "closed" where the broker has closed its half, after all that it has to send."""
    try:
        while await client.receive_some():
            pass
    except trio.BrokenResourceError as error:
        return "reset" if isinstance(error.__cause__, ConnectionResetError) else str(error.__cause__)
    return "closed"


@pytest.mark.parametrize("kind", ["socket", "stream"])
async def test_after_close_ok_the_client_closes_the_socket(autojump_clock: Clock, kind: str) -> None:
    """As with RabbitMQ. It may go on as amqplib does, whose last acks may come behind its close."""
    async with house() as home:
        if kind == "socket":
            client, connection_task = await home.client()
        else:
            end, other = connected()
            client = home.over(end)
            connection_task = home.serve(WholeTransport(other))
            await client.send_all(OPENING)
        await client.send_all(GOODBYE)
        assert (await hush(client)).endswith(encode_method(0, ConnectionCloseOk()))
        await connection_task.is_ended.wait()
        assert not home.broker.connections
        await client.send_all(b"and more")
        with trio.move_on_after(1) as patience:
            await client.receive_some()
        assert patience.cancelled_caught
        await client.aclose()


async def test_but_not_for_ever(autojump_clock: Clock) -> None:
    async with house() as home:
        client, _ = await home.tcp_client()
        began = trio.current_time()
        await client.send_all(GOODBYE)
        assert await how_it_ends(client) == "reset"
        assert trio.current_time() - began == pytest.approx(CLOSING_TIME, abs=1)


async def test_a_client_that_agrees_to_our_close_is_not_reset(autojump_clock: Clock) -> None:
    async with house() as home:
        client, _ = await home.tcp_client()
        home.broker.close_connections("because", 0.0)
        await client.send_all(encode_method(0, ConnectionCloseOk()))
        assert await how_it_ends(client) == "closed"


async def test_a_client_that_misses_its_heartbeats_is_reset(autojump_clock: Clock) -> None:
    """And not half-closed, which a client that only sends would never notice."""
    async with house() as home:
        client, connection_task = await home.tcp_client()
        connection_task.connection.cut()
        assert await how_it_ends(client) == "reset"
        await connection_task.is_ended.wait()
        assert not home.broker.connections


async def test_so_is_one_that_does_not_read_what_it_is_sent(autojump_clock: Clock) -> None:
    async with house() as home:
        client, connection_task = await home.tcp_client()
        await client.send_all(encoded(QueueDeclare(queue="q")) + publish(bytes(20_000_000)))
        await client.send_all(encoded(BasicConsume(queue="q", no_ack=True)))
        await trio.testing.wait_all_tasks_blocked(0.1)
        assert connection_task.connection.waiting
        connection_task.connection.cut()
        await connection_task.is_ended.wait()
        assert not home.broker.connections


@pytest.mark.parametrize("capabilities", [{}, {"authentication_failure_close": True}])
async def test_who_may_not_log_in_is_cut_after_a_while(autojump_clock: Clock, capabilities: dict[str, bool]) -> None:
    async with house() as home:
        home.nursery.start_soon(TimerTask(home.broker, home.send_scheduler).run)
        client, _ = await home.tcp_client(b"")
        began = trio.current_time()
        await client.send_all(HEADER + encode_method(0, Client.start_ok(b"\0guest\0no", capabilities=capabilities)))
        assert await how_it_ends(client) == "reset"
        assert trio.current_time() - began == pytest.approx(PENALTY, abs=0.5)
        assert not home.broker.refused


async def test_a_client_that_goes_without_a_word(autojump_clock: Clock) -> None:
    async with house() as home:
        client, connection_task = await home.client()
        await client.send_all(encoded(QueueDeclare(queue="mine", exclusive=True)))
        await hush(client)
        await client.aclose()
        await connection_task.is_ended.wait()
        assert not home.broker.connections
        assert "mine" not in home.broker.vhosts["/"].queues


async def test_what_goes_wrong_with_one_is_no_trouble_to_others(
    autojump_clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(Amqp091Connection):
        def feed(self, data: bytes, now: float) -> None:
            if b"trip" in data:
                raise RuntimeError("on purpose")
            super().feed(data, now)

    failing = FIRST._replace(connection=Failing)
    for module in (dialects, protocol_choice):
        monkeypatch.setattr(module, "FIRST", failing)
    async with house() as home:
        one, _ = await home.client()
        other, _ = await home.client()
        failures = noted(home.broker)
        await one.send_all(b"trip")
        assert b"INTERNAL_ERROR - the broker failed" in await hush(one)
        assert [(name, found["reason"]) for name, found in failures] == [
            ("connection failed", "RuntimeError('on purpose')")
        ]
        assert await quick_answer(other)


async def test_while_publishers_are_held_up_nothing_is_read(autojump_clock: Clock) -> None:
    async with house() as home:
        client, connection_task = await home.client()
        await client.send_all(encoded(QueueDeclare(queue="q")))
        home.broker.set_alarm("memory", True, 0.0)
        await client.send_all(publish(b"one"))
        assert b"low on memory" in await hush(client)
        await client.send_all(publish(b"two"))
        await hush(client)
        assert connection_task.connection.is_blocked
        assert home.broker.vhosts["/"].queues["q"].message_count == 0
        home.broker.set_alarm("memory", False, 0.0)
        await hush(client)
        assert home.broker.vhosts["/"].queues["q"].message_count == 2


async def test_a_flood_leaves_others_their_turn(autojump_clock: Clock) -> None:
    """Between two answers to a quiet client, a flooding one is read from a few times at most."""
    reads = 0

    class Counting(SocketTransport):
        async def receive(self) -> bytes:
            nonlocal reads
            data = await super().receive()
            reads += 1
            return data

    async with house() as home:
        quiet, _ = await home.client()
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        home.serve(Counting(theirs, most_read=16 * 1024, turn=1))
        flooder = home.over(ours)
        await flooder.send_all(OPENING)
        most = 0
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def flood() -> None:
                while True:
                    await flooder.send_all(publish(b"x" * 100, "nowhere") * 1000)

            for _ in range(50):
                await quiet.send_all(encoded(QueueDeclare(queue="other", exclusive=True)))
                before = reads
                assert await quiet.receive_some()
                most = max(most, reads - before)
            nursery.cancel_scope.cancel()
        assert reads > 50
        assert most < 10


# --- who stops reading, or is gone


async def test_what_a_socket_does_not_take_at_once_is_not_joined(autojump_clock: Clock) -> None:
    """Large bodies leave from where they lie, also to a client that takes them slowly."""
    joined, pieces_left = [], []

    class Watched(SocketTransport):
        async def send(self, data: bytes | memoryview) -> None:
            joined.append(len(data))
            await super().send(data)

        async def send_some(self, pieces: Sequence[bytes | memoryview]) -> int:
            pieces_left.append(len(pieces))
            return await super().send_some(pieces)

    async with house() as home:
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        home.serve(Watched(theirs, turn=1))
        client = home.over(ours)
        await client.send_all(OPENING)
        await hush(client)
        body = bytes(range(250)) * 400
        await client.send_all(encoded(QueueDeclare(queue="q"), BasicConsume(queue="q", no_ack=True)))
        await hush(client)
        other, _ = await home.client()
        await other.send_all(publish(body) * 20)
        assert (await hush(client)).count(body) == 20
    assert max(pieces_left) > 1
    assert joined == []


async def stalled(home: House, heartbeat: int) -> tuple[trio.SocketStream, ConnectionTask]:
    """A client that has more to read than its socket holds, and does not."""
    client, connection_task = await home.client(heartbeat)
    await client.send_all(encoded(QueueDeclare(queue="q"), BasicConsume(queue="q", consumer_tag="c")))
    await hush(client)
    other, _ = await home.client()
    await other.send_all(publish(bytes(1_000_000)) * 3)
    await trio.testing.wait_all_tasks_blocked()
    assert connection_task.connection.waiting > 1_000_000
    return client, connection_task


@pytest.mark.parametrize(("heartbeat", "patience"), [(0, STALLED_TIME), (2, 6.0), (60, STALLED_TIME)])
async def test_who_stops_reading_is_reset_and_what_it_has_goes_to_others(
    autojump_clock: Clock, heartbeat: int, patience: float
) -> None:
    async with house() as home:
        _, connection_task = await stalled(home, heartbeat)
        began = trio.current_time()
        reasons: list[str] = []
        home.broker.events.on_log = lambda level, event, address, *, reason, **fields: reasons.append(reason)
        await connection_task.is_ended.wait()
        assert trio.current_time() - began == pytest.approx(patience, abs=0.1)
        assert reasons == ["client does not read what it is sent"]
        assert home.broker.vhosts["/"].queues["q"].message_count == 3
        assert list(home.broker.connections) != [connection_task.connection]


async def test_who_reads_slowly_is_waited_for(autojump_clock: Clock) -> None:
    async with house() as home:
        client, connection_task = await stalled(home, 2)
        read = 0
        while read < 3_000_000:
            await trio.sleep(1)
            read += len(await client.receive_some(100_000))
        assert not connection_task.is_ended.is_set()


async def test_a_blocked_publisher_that_hangs_up_is_gone(autojump_clock: Clock) -> None:
    """Though nothing more of it is read, and it has sent more."""
    async with house() as home:
        client, connection_task = await home.client()
        await client.send_all(encoded(QueueDeclare(queue="mine", exclusive=True)))
        home.broker.set_alarm("memory", True, 0.0)
        await client.send_all(publish(b"one", "mine"))
        await hush(client)
        await client.send_all(publish(b"two", "mine"))
        await client.aclose()
        with trio.fail_after(2 * BLOCKED_LOOK):
            await connection_task.is_ended.wait()
        assert home.broker.vhosts["/"].queues == {}
        assert connection_task.connection not in home.broker.connections


async def test_nothing_of_a_connection_outlives_it(autojump_clock: Clock) -> None:
    """However it ends, and without the garbage collector."""
    kinds = (
        Amqp091Connection,
        BrokerChannel,
        Publisher,
        Deliveries,
        Connection,
        FrameReader,
        ConnectionTask,
        OutputBuffer,
        Consumer,
    )

    def left() -> list[str]:
        return [type(each).__name__ for each in gc.get_objects() if isinstance(each, kinds)]

    async def use(home: House, end: bytes) -> None:
        client, connection_task = await home.client()
        await client.send_all(encoded(QueueDeclare(queue="q"), BasicConsume(queue="q"), ConfirmSelect()))
        await client.send_all(publish(bytes(100_000)) * 3 + publish(b"half")[:-3])
        await hush(client)
        await client.send_all(end)
        await hush(client)
        await client.aclose()
        await connection_task.is_ended.wait()

    gc.collect()
    gc.disable()
    try:
        async with house() as home:
            before = left()
            for end in (b"", GOODBYE, b"rubbish", encoded(BasicAck(7))):
                await use(home, end)
                home.clients.clear()
                await trio.sleep(120)  # what a look at overdue acks has noted is forgotten with the next
                home.broker.tick(trio.current_time())
                assert left() == before
    finally:
        gc.enable()
