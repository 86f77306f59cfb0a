"""Opening a connection, what both sides announce of themselves, and every way in which it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from amqproxy.amqp091.methods import (
    BasicGet,
    BasicQos,
    ChannelOpen,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
    ConnectionUpdateSecret,
)
from amqproxy.amqp091.wire import Field, Table, encode_table_entries
from tests.behaviours.client import (
    CAPABILITIES,
    HEADER,
    Channel,
    Client,
    Closed,
    Gone,
    frame,
    login,
    until,
)
from tests.behaviours.scene import VHOST, Scene
from tests.behaviours.target import Target

pytestmark = pytest.mark.real

# ------------------------------------------------------------------------------------------------- the handshake


@pytest.mark.parametrize(
    "header",
    [b"AMQP\x00\x00\x09\x02", b"AMQP\x01\x01\x00\x0b", b"AMQP\x00\x01\x00\x00", b"AMQP\x02\x01\x00\x00", b"GET / HT"],
    ids=["0-9-2", "0-11", "1.0", "1.0 TLS", "HTTP"],
)
def test_another_protocol_is_answered_with_the_broker_s(scene: Scene, header: bytes) -> None:
    client = scene.bare()
    client.send_bytes(header)
    with pytest.raises(Gone, match="AMQP"):
        client.read_frame()
    is_almost_ours = header.startswith(HEADER[:7])
    assert bytes(client.received) == (HEADER if is_almost_ours else scene.profile.foreign_answer)
    client.received.clear()
    assert client.is_cut()


@pytest.mark.parametrize(
    ("header", "version"),
    [
        (b"AMQP\x01\x01\x00\x09", (0, 9)),
        (b"AMQP\x01\x01\x08\x00", (8, 0)),
        (b"AMQP\x01\x01\x09\x01", (8, 0)),
    ],
)
def test_older_headers_are_taken(scene: Scene, header: bytes, version: tuple[int, int]) -> None:
    """By 3.10; later versions take AMQP 0-9 of them alone."""
    name = {(0, 9): "0-9", (8, 0): "0-8"}[version]
    client = scene.bare()
    if name not in scene.profile.protocols:
        with pytest.raises(Gone):
            client.greet(header)
        assert bytes(client.received) == scene.profile.foreign_answer
        return
    start = client.greet(header)
    assert (start.version_major, start.version_minor) == version


def test_start_names_the_broker(scene: Scene) -> None:
    start = scene.bare().greet()
    assert (start.version_major, start.version_minor) == (0, 9)
    assert {b"PLAIN", b"AMQPLAIN"} <= set(start.mechanisms.split())
    assert start.locales == b"en_US"
    assert {"product", "version", "platform", "copyright", "information", "cluster_name", "capabilities"} == set(
        start.server_properties
    )


@pytest.mark.parametrize(
    "capability",
    [
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "consumer_priorities",
        "authentication_failure_close",
        "per_consumer_qos",
        "direct_reply_to",
    ],
)
def test_capabilities(scene: Scene, capability: str) -> None:
    client = scene.bare()
    client.greet()
    assert client.server_properties["capabilities"][capability] is True


def test_tune_offers_the_limits(scene: Scene) -> None:
    client = scene.bare()
    client.greet()
    client.start_ok(login("guest", "guest"))
    client.zero.expect(ConnectionTune, channel_max=2047, frame_max=131072, heartbeat=60)


def test_amqplain(scene: Scene) -> None:
    client = scene.bare()
    client.greet()
    response = encode_table_entries([Field("LOGIN", "S", "guest"), Field("PASSWORD", "S", "guest")])
    client.start_ok(response, "AMQPLAIN")
    client.zero.expect(ConnectionTune)


def test_open_ok_is_empty(scene: Scene) -> None:
    client = _tuned(scene)
    client.zero.send(ConnectionOpen(VHOST))
    client.zero.expect(ConnectionOpenOk, reserved_1="")


def test_tune_ok_and_open_may_come_in_one_read(scene: Scene) -> None:
    client = scene.bare()
    client.greet()
    client.start_ok(login("guest", "guest"))
    client.zero.expect(ConnectionTune)
    methods = (ConnectionTuneOk(2047, 131072, 0), ConnectionOpen(VHOST))
    client.send_bytes(b"".join(frame(1, 0, each.encode()) for each in methods))
    client.zero.expect(ConnectionOpenOk)


def test_a_client_need_not_wait_for_start_and_tune(scene: Scene) -> None:
    client = scene.bare()
    properties = Table({"capabilities": {}})
    methods = (
        ConnectionStartOk(properties, "PLAIN", login("guest", "guest"), "en_US"),
        ConnectionTuneOk(2047, 131072, 0),
        ConnectionOpen(VHOST),
    )
    client.send_bytes(HEADER + b"".join(frame(1, 0, each.encode()) for each in methods))
    for type_ in (ConnectionStart, ConnectionTune, ConnectionOpenOk):
        client.zero.expect(type_)


def _tuned(scene: Scene) -> Client:
    client = scene.bare()
    client.greet()
    client.start_ok(login("guest", "guest"))
    client.zero.expect(ConnectionTune)
    client.zero.send(ConnectionTuneOk(2047, 131072, 0))
    return client


# ------------------------------------------------------------------------------------------------ refused at once

REFUSED_LOGIN = (
    "connection 403 0.0 ACCESS_REFUSED - Login was refused using authentication mechanism {}. "
    "For details see the broker logfile."
)


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", login("guest", "wrong")),
        ("PLAIN", login("nobody", "guest")),
        ("PLAIN", login("", "")),
        ("AMQPLAIN", encode_table_entries([Field("LOGIN", "S", "guest"), Field("PASSWORD", "S", "wrong")])),
    ],
    ids=["wrong password", "unknown user", "no name", "AMQPLAIN: wrong password"],
)
def test_bad_login_is_refused_where_the_client_understands(scene: Scene, mechanism: str, response: bytes) -> None:
    client = scene.bare()
    client.greet()
    client.start_ok(response, mechanism)
    client.zero.expect_close(REFUSED_LOGIN.format(mechanism))


def test_an_anonymous_client_is_guest(scene: Scene) -> None:
    if "ANONYMOUS" not in scene.profile.mechanisms:
        pytest.skip("it is not offered by default")
    client = scene.bare()
    assert b"ANONYMOUS" in client.greet().mechanisms.split()
    client.start_ok(b"who I am", "ANONYMOUS")
    client.zero.expect(ConnectionTune)
    client.zero.send(ConnectionTuneOk(2047, 131072, 0))
    client.zero.call(ConnectionOpen(VHOST))
    channel = client.channel()
    channel.publish("", channel.declare(scene.q, exclusive=True), user_id="guest")
    assert channel.get(scene.q) is not None


def test_unknown_vhost(scene: Scene) -> None:
    client = _tuned(scene)
    client.zero.send(ConnectionOpen("nowhere"))
    client.zero.expect_close("connection 530 connection.open NOT_ALLOWED - vhost nowhere not found")


def _logged_in(client: Client, channel_max: int = 2047, frame_max: int = 131072) -> None:
    client.start_ok(login("guest", "guest"))
    client.zero.expect(ConnectionTune)
    client.zero.send(ConnectionTuneOk(channel_max, frame_max, 0))


CUT: dict[str, Callable[[Client], object]] = {
    "bad login, of a client that would not understand": lambda c: c.start_ok(login("guest", "no"), capabilities={}),
    "unknown mechanism": lambda c: c.start_ok(b"", "NONE"),
    "PLAIN without its zeros": lambda c: c.start_ok(b"guest", "PLAIN"),
    "frame_max too high": lambda c: _logged_in(c, frame_max=131073),
    "frame_max without a limit": lambda c: _logged_in(c, frame_max=0),
    "frame_max too low": lambda c: _logged_in(c, frame_max=4095),
    "channel_max too high": lambda c: _logged_in(c, channel_max=2048),
    "channel_max without a limit": lambda c: _logged_in(c, channel_max=0),
    "open before start-ok": lambda c: c.zero.send(ConnectionOpen(VHOST)),
    "close before start-ok": lambda c: c.zero.send(ConnectionClose(200, "bye")),
    "a channel before start-ok": lambda c: c.write(1, ChannelOpen()),
    "no frame": lambda c: c.send_bytes(b"\x09" * 20),
}


@pytest.fixture(scope="module")
def doomed(broker: Target) -> Iterator[dict[str, Client]]:
    """All of these at once, because a broker may take its time before it hangs up on strangers."""
    clients = {}
    for name, misbehave in CUT.items():
        clients[name] = client = Client(broker.port)
        client.greet()
        misbehave(client)
    yield clients
    for client in clients.values():
        client.abandon()


@pytest.mark.parametrize("name", CUT)
def test_cut_without_a_word(doomed: dict[str, Client], name: str) -> None:
    client = doomed[name]
    assert not client.received
    assert client.ending() == "reset"


def test_who_stays_after_the_close_is_cut_too(scene: Scene) -> None:
    client = scene.bare()
    client.greet()
    client.start_ok(login("guest", "wrong"))
    assert client.ending() == "reset"


@pytest.mark.parametrize("capabilities", [{}, CAPABILITIES], ids=["silent", "that understand"])
def test_very_many_bad_logins_keep_no_other_client_out(scene: Scene, capabilities: dict[str, bool]) -> None:
    """Clients that share an address with one that guesses, behind a proxy or NAT, log in as before."""
    for _ in range(150):
        client = scene.bare()
        client.greet()
        client.start_ok(login("guest", "wrong"), capabilities=capabilities)
        if capabilities:
            client.zero.expect_close(REFUSED_LOGIN.format("PLAIN"))
    _tuned(scene)


def test_a_channel_before_open(scene: Scene) -> None:
    client = _tuned(scene)
    client.write(1, ChannelOpen())
    client.zero.expect_close("connection 505 0.0 UNEXPECTED_FRAME - type 1, all octets = <<0,20,0,10,0>>")


# ------------------------------------------------------------------------------------------------------ its limits


def test_frames_are_cut_to_the_clients_frame_max(scene: Scene) -> None:
    least = scene.profile.frame_max_floor
    ch = scene.channel(frame_max=least)
    queue = ch.declare(exclusive=True)
    ch.publish("", queue, bytes(2 * least + 1808))
    ch.send(BasicGet(queue=queue, no_ack=True))
    sizes = []
    while sum(sizes) < 2 * least + 1808:
        kind, _, payload = ch.client.read_frame()
        if kind == 3:
            sizes.append(len(payload))
    assert sizes == [least - 8, least - 8, 1824]


def test_one_channel_too_many(scene: Scene) -> None:
    client = scene.client(channel_max=2)
    client.channel(1)
    client.channel(2)
    with pytest.raises(Closed) as closed:
        client.channel(3)
    assert str(closed.value) == (
        "connection 530 0.0 NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)"
    )


def test_heartbeats_come_and_count(scene: Scene) -> None:
    """With an interval of one second, one comes every half second; and a silent client is cut."""
    client = scene.client(heartbeat=1)
    beats = 0
    while not client.is_cut():
        beats += 1
    assert beats >= 2


def test_a_silent_client_is_reset(scene: Scene) -> None:
    """A client that only sends would not notice that the broker has closed its half."""
    assert scene.client(heartbeat=1).ending() == "reset"


# --------------------------------------------------------------------------------------------------------- its end


def test_close_is_answered(scene: Scene) -> None:
    client = scene.client()
    client.zero.send(ConnectionClose(200, "bye"))
    client.zero.expect(ConnectionCloseOk)
    client.stream.close()  # which is not to be asked for again, as nobody answers that


def test_the_socket_is_the_clients_to_close(scene: Scene) -> None:
    client = scene.client()
    client.zero.call(ConnectionClose(200, "bye"))
    client.stream.settimeout(0.3)
    with pytest.raises(TimeoutError):
        client.stream.recv(1)
    client.write(1, ChannelOpen())
    with pytest.raises(TimeoutError):
        client.stream.recv(1)


def test_a_short_heartbeat_is_the_time_to_close_it(scene: Scene) -> None:
    client = scene.client(heartbeat=1)
    client.zero.call(ConnectionClose(200, "bye"))
    assert client.ending() == "reset"


def test_and_the_time_to_answer_close(scene: Scene) -> None:
    client = scene.client(heartbeat=1)
    client.zero.send(BasicQos())
    assert client.ending() == "reset"


def test_what_was_sent_before_close_is_done(scene: Scene, ch: Channel) -> None:
    queue = ch.declare(scene.q, auto_delete=True)
    other = scene.channel()
    for _ in range(100):
        other.publish("", queue)
    other.client.close()
    until(lambda: ch.depth(queue) == 100, "all the messages to be there")


def test_the_socket_closes_after_close_ok(scene: Scene) -> None:
    client = scene.client()
    client.zero.send(BasicQos())
    client.zero.refusal()
    assert client.is_cut()


def test_exclusive_queues_go_with_the_connection(scene: Scene, ch: Channel) -> None:
    other = scene.channel()
    queue = other.declare(scene.q, exclusive=True, durable=True)
    other.client.close()
    until(lambda: not ch.exists(queue), "the queue to go")


def test_exclusive_queues_go_with_the_socket(scene: Scene, ch: Channel) -> None:
    other = scene.channel()
    queue = other.declare(scene.q, exclusive=True)
    other.client.abandon()
    until(lambda: not ch.exists(queue), "the queue to go")


# ------------------------------------------------------------------------------------------- what operators do


def test_closed_by_an_operator(scene: Scene) -> None:
    client = scene.client()
    scene.broker.close_connections(VHOST, "for a reason")
    client.zero.expect_close("connection 320 0.0 CONNECTION_FORCED - for a reason")


def test_update_secret(scene: Scene) -> None:
    client = scene.client()
    client.zero.call(ConnectionUpdateSecret(b"guest", "it was time"))
    client.channel()


def test_blocked_and_unblocked(scene: Scene) -> None:
    """Only publishers are notified, and nothing that it publishes is read until the alarm is over."""
    publisher, consumer, deaf = scene.channel(), scene.channel(), scene.channel(capabilities={})
    queue = consumer.declare(scene.q, exclusive=False, auto_delete=True)
    consumer.consume(queue, no_ack=True)
    scene.broker.set_memory_alarm(True)
    try:
        publisher.publish("", queue, b"late")
        deaf.publish("", queue, b"late too")
        publisher.client.zero.expect(ConnectionBlocked, reason="low on memory")
        consumer.expect_nothing(queue)
    finally:
        scene.broker.set_memory_alarm(False)
    publisher.client.zero.expect(ConnectionUnblocked)
    assert sorted(consumer.bodies(2)) == [b"late", b"late too"]
    deaf.settle()
    assert not deaf.client.zero.inbox
    assert not consumer.client.zero.inbox


def test_capabilities_are_the_clients_to_announce(scene: Scene) -> None:
    client = scene.client(capabilities={**CAPABILITIES, "of_its_own": True})
    client.channel()
