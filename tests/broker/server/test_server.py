"""All the clients of one broker, with real clients where it matters who they are."""

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

import pika
import pytest
import trio
import trio.testing
import trustme
from structlog.testing import capture_logs

from amqproxy.amqp091.frame import Frame, encode_method
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.methods import ConnectionStart
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.broker.access.users import User
from amqproxy.broker.broker import EVERYTHING, Broker
from amqproxy.broker.server.server import SHUTDOWN, BrokerServer, serve
from amqproxy.sockets.certificate import Naming, common_name, distinguished_name
from tests.broker.client import Client
from tests.broker.server.handshake import OPENING
from tests.broker.server.running import running, send_and_get


async def test_pika_publishes_and_gets() -> None:
    bodies = [b"", b"one", bytes(300_000)]
    async with serve(Broker()) as port:
        assert await trio.to_thread.run_sync(partial(send_and_get, port, bodies)) == bodies


async def until_gone(broker: Broker) -> None:
    with trio.fail_after(5):
        while broker.connections:  # noqa: ASYNC110
            await trio.sleep(0.01)


def stream(sock: socket.socket) -> trio.SocketStream:
    return trio.SocketStream(trio.socket.from_stdlib_socket(sock))


# ---------------------------------------------------------------------------------------- within the process


async def test_each_connection_within_the_process_is_a_connection_of_its_own() -> None:
    server = BrokerServer(Broker())
    async with running(server):
        ends = [stream(server.open()) for _ in range(2)]
        for end in ends:
            await end.send_all(HEADER)
            assert (await end.receive_some(4096))[:1] == b"\x01"
        assert len(server.broker.connections) == 2
        for end in ends:
            await end.aclose()
        await until_gone(server.broker)


async def test_nothing_is_opened_before_it_runs() -> None:
    with pytest.raises(AssertionError):
        BrokerServer(Broker()).open()


# ------------------------------------------------------------------------------------------------- listening


async def listening(server: BrokerServer) -> int:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    server.listen(listener)
    return listener.socket.getsockname()[1]  # type: ignore[no-any-return]


async def test_clients_are_named_as_rabbitmq_names_them() -> None:
    server = BrokerServer(Broker())
    async with running(server):
        port = await listening(server)
        async with await trio.open_tcp_stream("127.0.0.1", port) as client:
            await client.send_all(HEADER)
            await client.receive_some(1)
            (connection,) = server.broker.connections
            assert connection.name == f"127.0.0.1:{client.socket.getsockname()[1]} -> 127.0.0.1:{port}"


async def test_there_may_be_a_most_of_connections() -> None:
    server = BrokerServer(Broker(), most_connections=1)
    with capture_logs() as log:
        async with running(server):
            port = await listening(server)
            async with await trio.open_tcp_stream("127.0.0.1", port) as one:
                await one.send_all(HEADER)
                await one.receive_some(1)
                async with await trio.open_tcp_stream("127.0.0.1", port) as other:
                    assert await other.receive_some(1) == b""
            await until_gone(server.broker)
            async with await trio.open_tcp_stream("127.0.0.1", port) as again:
                await again.send_all(HEADER)
                assert await again.receive_some(1) == b"\x01"
    assert [event["event"] for event in log].count("connection refused") == 1


# ------------------------------------------------------------------------------------------------------- TLS


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def server_context(authority: trustme.CA) -> ssl.SSLContext:
    """As `sockets.tls` makes it of files, but that clients may come without a certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.verify_mode = ssl.CERT_OPTIONAL
    authority.configure_trust(context)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


def client_context(authority: trustme.CA, name: str = "") -> ssl.SSLContext:
    """One that shows a certificate for `name`, if there is a name."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    if name:
        certificate = authority.issue_cert(
            f"{name}@example.com", common_name=name, organization_name="acme", organization_unit_name="broker"
        )
        certificate.configure_cert(context)
    return context


@asynccontextmanager
async def listening_with_tls(
    authority: trustme.CA,
    naming: Naming,
    *users: str,
    mechanisms: tuple[str, ...] | None = ("PLAIN", "AMQPLAIN", "EXTERNAL"),
) -> AsyncIterator[int]:
    broker = Broker(mechanisms=mechanisms)
    for name in users:
        user = User(name, "")
        user.permit("/", EVERYTHING)
        broker.add_user(user)
    server = BrokerServer(broker, naming=naming)
    async with running(server):
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        server.listen(listener, server_context(authority))
        yield listener.socket.getsockname()[1]


async def mechanisms(port: int, context: ssl.SSLContext) -> set[bytes]:
    """What the broker offers to this client."""
    plain = await trio.open_tcp_stream("127.0.0.1", port)
    async with trio.SSLStream(plain, context, server_hostname="127.0.0.1") as client:
        await client.send_all(HEADER)
        reader = FrameReader(frame_max=0)
        frames: list[Frame] = []
        while not frames:
            frames = reader.feed(bytes(await client.receive_some()))
    start = frames[0].method
    assert isinstance(start, ConnectionStart)
    return set(start.mechanisms.split())


async def test_external_is_offered_to_those_who_can(authority: trustme.CA) -> None:
    async with listening_with_tls(authority, distinguished_name) as port:
        assert await mechanisms(port, client_context(authority)) == {b"PLAIN", b"AMQPLAIN"}
        assert await mechanisms(port, client_context(authority, "orders")) == {b"PLAIN", b"AMQPLAIN", b"EXTERNAL"}


async def test_external_is_not_offered_unless_configured(authority: trustme.CA) -> None:
    async with listening_with_tls(authority, distinguished_name, mechanisms=None) as port:
        assert await mechanisms(port, client_context(authority, "orders")) == {b"PLAIN", b"AMQPLAIN"}


async def test_a_client_that_does_not_finish_the_tls_handshake_has_five_seconds(
    authority: trustme.CA, autojump_clock: trio.testing.MockClock
) -> None:
    async with listening_with_tls(authority, distinguished_name) as port:
        async with await trio.open_tcp_stream("127.0.0.1", port) as client:
            began = trio.current_time()
            with capture_logs() as log, suppress(trio.BrokenResourceError):
                await client.receive_some()
        assert trio.current_time() - began == pytest.approx(5.0, abs=0.5)
    assert [event["event"] for event in log] == ["TLS handshake failed"]


async def test_who_waits_after_a_refused_login_takes_no_place() -> None:
    server = BrokerServer(Broker(), most_connections=1)
    async with running(server):
        port = await listening(server)
        async with await trio.open_tcp_stream("127.0.0.1", port) as guessing:
            await guessing.send_all(HEADER + encode_method(0, Client.start_ok(b"\0guest\0wrong", capabilities={})))
            with trio.fail_after(5):
                while not server.broker.refused:  # noqa: ASYNC110
                    await trio.sleep(0.01)
            async with await trio.open_tcp_stream("127.0.0.1", port) as other:
                await other.send_all(HEADER)
                assert await other.receive_some(1) == b"\x01"


@pytest.mark.parametrize(
    ("naming", "user"), [(distinguished_name, "CN=orders,OU=broker,O=acme"), (common_name, "orders")]
)
async def test_pika_logs_in_by_its_certificate(authority: trustme.CA, naming: Naming, user: str) -> None:
    def log_in(port: int, name: str) -> None:
        options = pika.SSLOptions(client_context(authority, name), "127.0.0.1")
        credentials = pika.credentials.ExternalCredentials()
        parameters = pika.ConnectionParameters("127.0.0.1", port, ssl_options=options, credentials=credentials)
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            queue = channel.queue_declare("", exclusive=True).method.queue
            channel.basic_publish("", queue, bytes(1_000_000), pika.BasicProperties(user_id=user))
            _, _, body = next(channel.consume(queue, auto_ack=True))
            assert len(body) == 1_000_000

    async with listening_with_tls(authority, naming, user) as port:
        await trio.to_thread.run_sync(log_in, port, "orders")
        with pytest.raises(pika.exceptions.ProbableAuthenticationError, match="authentication mechanism EXTERNAL"):
            await trio.to_thread.run_sync(log_in, port, "invoices")


async def test_who_does_not_speak_tls_is_no_trouble(authority: trustme.CA) -> None:
    async with listening_with_tls(authority, distinguished_name) as port:
        with capture_logs() as log:
            async with await trio.open_tcp_stream("127.0.0.1", port) as client:
                await client.send_all(HEADER)
                while await client.receive_some():
                    pass
        assert [event["event"] for event in log] == ["client connected", "TLS handshake failed"]
        assert b"PLAIN" in await mechanisms(port, client_context(authority))


# --------------------------------------------------------------------------------------------------- the end


async def test_a_close_is_worded_as_rabbitmqs() -> None:
    server = BrokerServer(Broker())
    async with running(server):
        port = await listening(server)
        connection = await trio.to_thread.run_sync(
            lambda: pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
        )

        def hear_the_end() -> None:
            with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
                connection.sleep(30.0)
            assert (closed.value.reply_code, closed.value.reply_text) == (320, f"CONNECTION_FORCED - {SHUTDOWN}")

        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.to_thread.run_sync, hear_the_end)
                await server.close(timeout=30.0)
        assert not server.broker.connections
        with pytest.raises(OSError, match="all attempts"):
            await trio.open_tcp_stream("127.0.0.1", port)


async def test_who_does_not_answer_a_close_is_not_waited_for(autojump_clock: trio.testing.MockClock) -> None:
    server = BrokerServer(Broker())
    async with running(server):
        client = stream(server.open())
        await client.send_all(OPENING)
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        await server.close(timeout=5.0)
        assert trio.current_time() - began == pytest.approx(5.0)
        await client.aclose()
