"""A connection from its first byte to its last: each answer is RabbitMQ 3.10's."""

from collections.abc import Callable
from typing import Any

import pytest

from amqproxy.amqp091.errors import PreconditionFailed
from amqproxy.amqp091.frame import HEARTBEAT_FRAME
from amqproxy.amqp091.methods import (
    BasicConsume,
    BasicPublish,
    BasicQos,
    ChannelClose,
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    Method,
    QueueDeclare,
)
from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.amqp091.wire import Table
from amqproxy.broker.access.refused_logins import MOST_OF_ADDRESS
from amqproxy.broker.access.token_user import TokenUser
from amqproxy.broker.access.users import LoginRefused, User
from amqproxy.broker.amqp091.connection import Amqp091Connection
from amqproxy.broker.broker import EVERYTHING, Broker
from amqproxy.broker.connections.client_connection import HANDSHAKE_TIME
from amqproxy.broker.connections.closing import CLOSING_TIME, PENALTY, SocketClosing
from amqproxy.broker.work import Job
from amqproxy.configuration.token_config import BrokerTokens
from amqproxy.rabbitmq.profile import CAPABILITIES, PROFILES, Profile
from tests.broker.client import Client, Refused, connected
from tests.real import raw
from tests.real.malformed import FOREIGN, MALFORMED, Case

REFUSED = "Login was refused using authentication mechanism {}. For details see the broker logfile."

STRICTER = {
    "method: unknown class 99": "503",
    "method: unknown class 99 on channel 0": "503",
    "method: unknown method basic.99": "503",
    "method: one only a server sends (basic.deliver)": "503",
    "method: one only a server sends (basic.deliver), then another": "503",
    "content: body larger than announced": "501",
    "content: body larger than announced, then a method": "501",
    "content: body larger than announced, then more of it": "501",
    "arguments: table shorter than its entry": "501",
    "arguments: table with half an entry": "501",
    "arguments: table of an unknown type z": "502",
    "arguments: table with an array that overruns": "501",
}
"""Where RabbitMQ's reader crashes or waits for ever, and we reply with what is wrong."""


def advanced(case: Case) -> Client:
    """A client as far as the case needs it."""
    client = Client(Broker())
    stages = [
        ("start", [raw.PROTOCOL_HEADER]),
        ("tune", [raw.start_ok()]),
        ("channel", [raw.tune_ok() + raw.connection_open(), raw.channel_open(1), raw.channel_open(2)]),
    ]
    for stage, data in stages if case.after != "connected" else ():
        for each in data:
            client.feed(each)
            client.receive()
        if stage == case.after:
            break
    return client


@pytest.mark.parametrize("case", [*FOREIGN, *MALFORMED], ids=lambda case: case.name)
def test_malformed(case: Case) -> None:
    client = advanced(case)
    try:
        client.feed(case.data)
        if case.after == "channel":
            client.feed(raw.method(2, 60, 10, bytes(7)))
        answer = client.transcript()
    except Refused as refused:
        answer = str(refused)
    expected = STRICTER.get(case.name, case.rabbitmq)
    if case.name == "handshake: heartbeat before start-ok":
        client.broker.tick(client.now + HANDSHAKE_TIME)
        answer = client.transcript()
    if expected == "carries on":
        assert "qos-ok" in answer or "close-ok" in answer
        assert "connection 5" not in answer
    elif expected.isdigit():
        assert answer.startswith(f"connection {expected} ")
    else:
        assert expected in answer


@pytest.mark.parametrize("chunk", [1, 2, 7, 1000])
def test_however_the_bytes_come(chunk: int) -> None:
    client = Client(Broker())
    data = raw.PROTOCOL_HEADER + raw.start_ok() + raw.tune_ok() + raw.connection_open() + raw.channel_open(1)
    for start in range(0, len(data), chunk):
        client.feed(data[start : start + chunk])
    names = [each.method.name for each in client.receive()]
    assert names == ["connection.start", "connection.tune", "connection.open-ok", "channel.open-ok"]


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
@pytest.mark.parametrize("header", [b"AMQP\0\0\x09\2", b"AMQP\0\1\0\0", b"AMQP\3\1\0\0", b"GET / HT"])
def test_the_answer_to_a_foreign_header_does_not_depend_on_its_pieces(profile: Profile, header: bytes) -> None:
    whole, pieces = Client(Broker(profile=profile)), Client(Broker(profile=profile))
    whole.feed(header)
    for start in range(len(header)):
        pieces.feed(header[start : start + 1])
    assert whole.connection.take_output() == pieces.connection.take_output() != b""


def test_start_is_as_rabbitmqs() -> None:
    client = Client(Broker("1.0"))
    client.feed(HEADER)
    (received,) = client.receive()
    start = received.method
    assert isinstance(start, ConnectionStart)
    assert (start.version_major, start.version_minor, start.locales) == (0, 9, b"en_US")
    assert start.mechanisms == b"PLAIN AMQPLAIN"
    assert start.server_properties["product"] == "RabbitMQ"
    assert start.server_properties["capabilities"] == dict.fromkeys(CAPABILITIES, True)
    assert set(start.server_properties) == {
        "capabilities",
        "cluster_name",
        "copyright",
        "information",
        "platform",
        "product",
        "version",
    }


@pytest.mark.parametrize(
    ("mechanism", "response", "expected"),
    [
        ("PLAIN", b"\0guest\0guest", "connection.tune"),
        ("AMQPLAIN", Table({"LOGIN": "guest", "PASSWORD": "guest"}).octets, "connection.tune"),
        ("PLAIN", b"\0guest\0wrong", f"connection 403 0.0 ACCESS_REFUSED - {REFUSED.format('PLAIN')}"),
        ("PLAIN", b"\0\xff\0\xff", f"connection 403 0.0 ACCESS_REFUSED - {REFUSED.format('PLAIN')}"),
        ("PLAIN", b"\0nobody\0guest", f"connection 403 0.0 ACCESS_REFUSED - {REFUSED.format('PLAIN')}"),
        (
            "AMQPLAIN",
            Table({"LOGIN": "guest", "PASSWORD": "no"}).octets,
            f"connection 403 0.0 ACCESS_REFUSED - {REFUSED.format('AMQPLAIN')}",
        ),
        ("PLAIN", b"guest", "closed"),
        ("PLAIN", b"other\0guest\0guest", "closed"),
        ("AMQPLAIN", b"zz", "closed"),
        ("AMQPLAIN", Table({"LOGIN": "guest"}).octets, "closed"),
        ("EXTERNAL", b"", "closed"),
        ("plain", b"\0guest\0guest", "closed"),
    ],
)
def test_logging_in(mechanism: str, response: bytes, expected: str) -> None:
    client = Client(Broker())
    client.feed(HEADER)
    client.receive()
    client.send(0, client.start_ok(response, mechanism))
    assert client.transcript() == expected


def test_a_client_without_the_capability_is_sent_no_close() -> None:
    client = Client(Broker())
    client.feed(HEADER)
    client.receive()
    client.send(0, client.start_ok(b"\0guest\0wrong", capabilities={}))
    assert client.transcript() == "closed"
    assert (client.connection.end, client.connection.patience) == (SocketClosing.REFUSED, PENALTY)


def test_a_client_that_is_sent_the_reason_is_cut_as_soon() -> None:
    client = Client(Broker())
    client.feed(HEADER)
    client.send(0, client.start_ok(b"\0guest\0wrong"))
    assert "connection 403" in client.transcript()
    assert not client.connection.is_over
    client.broker.tick(client.now + PENALTY)
    assert client.connection.end is SocketClosing.LOST


def test_or_when_it_agrees() -> None:
    client = Client(Broker())
    client.feed(HEADER)
    client.send(0, client.start_ok(b"\0guest\0wrong"))
    client.send(0, ConnectionCloseOk())
    assert client.connection.end is SocketClosing.AGREED


@pytest.mark.parametrize("capabilities", [{}, {"authentication_failure_close": True}])
def test_so_many_refused_logins_of_one_address_are_kept(capabilities: dict[str, bool]) -> None:
    broker = Broker()
    clients = []
    for _ in range(MOST_OF_ADDRESS + 5):
        clients.append(client := Client(broker))
        client.feed(HEADER)
        client.send(0, client.start_ok(b"\0guest\0wrong", capabilities=capabilities))
    assert len(broker.refused) == MOST_OF_ADDRESS
    assert [client.connection.end is SocketClosing.LOST for client in clients].count(True) == 5
    assert all(client.connection.end is SocketClosing.LOST for client in clients[:5])


@pytest.mark.parametrize("method", [ConnectionOpen("/"), ConnectionClose(200, "bye"), ConnectionTuneOk(0, 131072, 0)])
def test_a_stranger_is_cut_without_a_word(method: Method) -> None:
    client = Client(Broker())
    client.feed(HEADER)
    client.receive()
    client.send(0, method)
    assert client.transcript() == "closed"
    assert (client.connection.end, client.connection.patience) == (SocketClosing.REFUSED, PENALTY)


def test_guest_comes_from_nearby() -> None:
    with pytest.raises(Refused, match="403"):
        Client(Broker(), is_loopback=False).open()


def test_a_certificate_logs_in() -> None:
    broker = Broker(mechanisms=("PLAIN", "AMQPLAIN", "EXTERNAL"))
    user = User("CN=client", "")
    user.permit("/", EVERYTHING)
    broker.add_user(user)
    for name, expected in (("CN=client", "connection.tune"), ("CN=other", "connection 403 0.0")):
        client = Client(broker, certificate_name=name)
        client.feed(HEADER)
        (start,) = client.receive()
        assert start.method.mechanisms == b"PLAIN AMQPLAIN EXTERNAL"
        client.send(0, client.start_ok(b"", "EXTERNAL"))
        assert client.transcript().startswith(expected)


def test_external_is_offered_only_where_it_is_configured() -> None:
    """py-amqp prefers it where it is offered, whether the user is known or not."""
    client = Client(Broker(), certificate_name="CN=client")
    client.feed(HEADER)
    (start,) = client.receive()
    assert start.method.mechanisms == b"PLAIN AMQPLAIN"
    client.send(0, client.start_ok(b"", "EXTERNAL"))
    assert client.transcript() == "closed"


def test_a_user_without_a_password_cannot_use_one() -> None:
    broker = Broker()
    broker.add_user(User("nobody", ""))
    with pytest.raises(Refused, match="403"):
        Client(broker).open(user="nobody", password="")


def test_something_else_before_open() -> None:
    client = Client(Broker())
    client.feed(HEADER)
    client.send(0, client.start_ok(b"\0guest\0guest"))
    client.send(0, ConnectionTuneOk(2047, 131072, 0))
    client.receive()
    client.send(1, ChannelOpen())
    assert client.transcript() == "connection 505 0.0 UNEXPECTED_FRAME - type 1, all octets = <<0,20,0,10,0>>"


@pytest.mark.parametrize(
    ("vhost", "limits", "expected"),
    [
        ("nowhere", {}, "vhost nowhere not found"),
        ("closed", {}, "access to vhost 'closed' refused for user 'u'"),
        ("open", {"vhost": 0}, "access to vhost 'open' refused for user 'u': connection limit (0) is reached"),
        ("open", {"vhost": 1}, "access to vhost 'open' refused for user 'u': connection limit (1) is reached"),
        ("open", {"user": 1}, "connection refused for user 'u': user connection limit (1) is reached"),
        ("open", {"user": 2, "vhost": 2}, ""),
        ("open", {"user": -1, "vhost": -1}, ""),
    ],
)
def test_entering_a_virtual_host(vhost: str, limits: dict[str, int], expected: str) -> None:
    broker = Broker()
    user = User.with_password("u", "p")
    user.permit("open", EVERYTHING)
    broker.add_user(user)
    broker.add_vhost("closed")
    broker.add_vhost("open")
    Client(broker).open("open", "u", "p")
    if "vhost" in limits:
        broker.vhosts["open"].limits["max-connections"] = limits["vhost"]
    if "user" in limits:
        user.limits["max-connections"] = limits["user"]
    try:
        Client(broker).open(vhost, "u", "p")
        answer = ""
    except Refused as refused:
        answer = str(refused)
    assert answer == (expected and f"connection 530 connection.open NOT_ALLOWED - {expected}")


def test_one_channel_too_many() -> None:
    client = Client(Broker()).open(channel_max=2)
    client.channel(1)
    client.channel(9)
    client.send(3, ChannelOpen())
    assert client.transcript() == (
        "connection 530 0.0 NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)"
    )


def test_a_users_channels_count_on_all_its_connections() -> None:
    broker = Broker()
    broker.users["guest"].limits["max-channels"] = 2
    connected(broker)
    client = connected(broker)
    client.send(2, ChannelOpen())
    assert client.transcript() == (
        "connection 530 0.0 NOT_ALLOWED - "
        "number of channels opened for user 'guest' has reached the maximum allowed user limit of (2)"
    )


def test_a_channel_may_be_closed_and_opened_again() -> None:
    client = connected(channel_max=1)
    assert client.answers(ChannelClose()) == "channel.close-ok"
    client.channel(7)


def test_update_secret() -> None:
    client = connected()
    client.send(0, ConnectionUpdateSecret(b"new", "for a reason"))
    assert client.transcript() == "connection.update-secret-ok"


TOKEN = "eyJ.e.x"


def taking_tokens() -> Broker:
    """A broker to which each token names `tina`, with a lifetime of 100 s and the virtual host / alone."""
    broker = Broker()
    settings = BrokerTokens(keys="keys.json")
    claims = {"sub": "tina", "scope": "rabbitmq.configure:%2F/*"}

    def user_of(token: str) -> User:
        if token == "eyJ.expired.x":
            raise LoginRefused("it has expired")
        profile = broker.profile
        return TokenUser(claims, settings, expires_at=1100.0, now=1000.0, profile=profile)

    broker.user_of_token = user_of
    return broker


@pytest.mark.parametrize("heartbeat", [0, 60])
def test_a_connection_ends_with_its_token(heartbeat: int) -> None:
    client = Client(taking_tokens()).open(password=TOKEN, heartbeat=heartbeat)
    assert client.connection.user.name == "tina"
    while client.now < 1095:
        client.now += 5
        client.feed(HEARTBEAT_FRAME)
        client.broker.tick(client.now)
    assert client.transcript() == ""
    client.now = 1100.5
    client.broker.tick(client.now)
    assert client.transcript() == "connection 320 0.0 CONNECTION_FORCED - credential expired"


def test_a_token_has_the_limits_of_the_user_that_it_names() -> None:
    broker = taking_tokens()
    tina = User.with_password("tina", "password")
    tina.permit("/", EVERYTHING)
    tina.set_limits({"max-connections": 2, "max-channels": 3})
    broker.add_user(tina)
    one, two = Client(broker).open(user="tina", password="password"), Client(broker).open(password=TOKEN)
    with pytest.raises(Refused, match=r"user connection limit \(2\) is reached"):
        Client(broker).open(password=TOKEN)
    one.channel(1)
    two.channel(1)
    two.channel(2)
    two.send(3, ChannelOpen())
    assert "number of channels opened for user 'tina' has reached the maximum" in two.transcript()


def test_a_token_is_renewed() -> None:
    client = Client(taking_tokens()).open(password=TOKEN)
    client.now = 1090.0
    client.send(0, ConnectionUpdateSecret(TOKEN.encode(), "for a reason"))
    assert client.transcript() == "connection.update-secret-ok"
    client.now = 1150.0
    client.broker.tick(client.now)
    assert client.transcript() == ""
    client.send(0, ConnectionUpdateSecret(b"eyJ.expired.x", "for a reason"))
    assert (
        client.transcript()
        == "connection 530 connection.update-secret NOT_ALLOWED - New secret was refused by one of the backends"
    )


def test_close() -> None:
    client = connected()
    client.send(0, ConnectionClose(200, "bye"))
    assert client.transcript() == "connection.close-ok"
    assert client.connection.is_over
    assert (client.connection.end, client.connection.patience) == (SocketClosing.CLOSED, CLOSING_TIME)


def test_a_short_heartbeat_makes_the_time_to_close_short() -> None:
    client = connected(heartbeat=4)
    client.send(0, ConnectionClose(200, "bye"))
    assert (client.connection.end, client.connection.patience) == (SocketClosing.CLOSED, 4.0)
    other = connected(heartbeat=5)
    other.broker.close_connections("because", other.now)
    other.broker.tick(other.now + 5)
    assert other.connection.end is SocketClosing.LOST


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (lambda broker: broker.close_connections("because", 1000.0, "v"), "because"),
        (lambda broker: broker.delete_vhost("v", 1000.0), "vhost 'v' is deleted"),
        (lambda broker: broker.delete_user("guest", 1000.0), "user 'guest' is deleted"),
    ],
)
def test_closed_by_an_operator(act: Callable[[Broker], object], reason: str) -> None:
    broker = Broker()
    broker.add_vhost("v")
    broker.users["guest"].permit("v", EVERYTHING)
    client = Client(broker).open("v")
    client.channel()
    client.declare("mine", exclusive=True)
    act(broker)
    assert client.transcript() == f"connection 320 0.0 CONNECTION_FORCED - {reason}"
    client.send(1, BasicQos())
    assert not client.connection.is_over
    client.send(0, ConnectionCloseOk())
    assert client.connection.is_over


def test_exclusive_queues_go_with_their_connection() -> None:
    broker = Broker()
    client, other = connected(broker), connected(broker)
    client.declare("mine", exclusive=True)
    other.declare("ours")
    client.connection.lose(client.now)
    assert list(broker.vhosts["/"].queues) == ["ours"]
    assert list(broker.connections) == [other.connection]


# --- time


def test_who_takes_too_long_for_the_handshake_is_cut() -> None:
    client = Client(Broker())
    client.feed(HEADER)
    client.receive()
    client.broker.tick(client.now + HANDSHAKE_TIME - 1)
    assert not client.connection.is_over
    assert client.broker.next_deadline() == client.now + HANDSHAKE_TIME
    client.broker.tick(client.now + HANDSHAKE_TIME)
    assert client.connection.end is SocketClosing.LOST


def test_who_does_not_answer_close_is_cut() -> None:
    client = connected()
    client.broker.close_connections("because", client.now)
    client.broker.tick(client.now + CLOSING_TIME)
    assert client.connection.end is SocketClosing.LOST


def test_heartbeats() -> None:
    client = connected(heartbeat=10)
    broker, start = client.broker, client.now
    for second in range(1, 70):
        client.now = start + second
        if second < 40:
            client.feed(HEARTBEAT_FRAME)
        broker.tick(client.now)
        client.receive()
        if second == 39:
            assert 39 // 10 <= client.heartbeats <= 8
        if client.connection.is_over:
            break
    assert 39 + 20 <= second <= 39 + 25
    assert client.connection.end is SocketClosing.LOST


def test_a_client_that_is_not_read_is_not_silent() -> None:
    client = connected(heartbeat=10)
    client.connection.is_paused = True
    client.broker.tick(client.now + 100)
    assert not client.connection.is_over


def test_without_heartbeats_there_is_no_timer() -> None:
    client = connected(heartbeat=0)
    assert client.broker.next_deadline() == float("inf")


# --- the log


class Log:
    """What a broker logs, a line each: the level, what happened, and the fields without who it is about."""

    def __init__(self, broker: Broker) -> None:
        self.lines: list[str] = []
        self.fields: dict[str, Any] = {}
        self.addresses: set[str] = set()
        broker.events.on_log = self.note

    def note(self, level: str, event: str, address: str, **fields: Any) -> None:
        self.addresses.add(address)
        self.fields = {name: value for name, value in fields.items() if value is not None}
        known = ("client", "name", "vhost", "user", "operation")
        rest = [f"{name}={value}" for name, value in self.fields.items() if name not in known]
        self.lines.append(" ".join([f"{level} {event}", *rest]))

    def take(self) -> list[str]:
        lines, self.lines = self.lines, []
        return lines


@pytest.fixture
def log() -> Log:
    return Log(Broker())


def stranger(log: Log) -> Client:
    """A client that has been greeted."""
    broker = Broker()
    broker.events.on_log = log.note
    client = Client(broker)
    client.feed(HEADER)
    client.receive()
    assert log.take() == ["info connection accepted"]
    return client


def guest(log: Log, **options: Any) -> Client:
    """A client with channel 1 open."""
    broker = Broker()
    broker.events.on_log = log.note
    client = connected(broker, **options)
    log.lines.clear()
    return client


def test_a_connection_is_logged_as_rabbitmq_logs_it(log: Log) -> None:
    client = stranger(log)
    properties = Table({"product": "p", "connection_name": "mine", "capabilities": {}})
    client.send(0, ConnectionStartOk(properties, "PLAIN", b"\0guest\0guest", "en_US"))
    client.send(0, ConnectionTuneOk(2047, 131_072, 60))
    client.send(0, ConnectionOpen("/"))
    assert log.take() == ["info connection open product=p heartbeat=60"]
    assert log.fields["user"] == "guest"
    assert log.fields["name"] == "mine"
    assert log.fields["vhost"] == "/"
    client.send(0, ConnectionClose(200, "bye"))
    client.connection.lose(client.now)
    client.connection.lose(client.now)
    assert log.take() == ["info connection closed by=client code=200 reason=bye"]


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (0, "info connection closed by=client reason=r"),
        (200, "info connection closed by=client code=200 reason=r"),
        (541, "warning connection closed by=client code=541 reason=r"),
    ],
)
def test_a_client_may_close_without_a_code(log: Log, code: int, line: str) -> None:
    """As py-amqp does, and so kombu and Celery."""
    client = guest(log)
    client.send(0, ConnectionClose(code, "r"))
    client.connection.lose(client.now)
    assert log.take() == [line]


def test_a_connection_that_ends_without_a_close_is_a_warning(log: Log) -> None:
    client = guest(log)
    client.connection.lose(client.now)
    assert log.take() == ["warning connection closed by=client reason=client unexpectedly closed TCP connection"]


def test_a_probe_is_for_debugging(log: Log) -> None:
    broker = Broker()
    broker.events.on_log = log.note
    Client(broker).connection.lose(0.0)
    assert log.take() == ["debug connection closed by=client reason=client sent nothing"]


def test_a_broker_that_ends_blames_no_client(log: Log) -> None:
    client = guest(log)
    client.connection.lose(client.now, is_gone=False)
    assert log.take() == ["info connection closed"]


@pytest.mark.parametrize(
    ("response", "mechanism", "line"),
    [
        (b"\0guest\0no", "PLAIN", "login refused mechanism=PLAIN reason=user 'guest' - invalid credentials"),
        (b"\0nobody\0no", "PLAIN", "login refused mechanism=PLAIN reason=user 'nobody' - invalid credentials"),
        (b"secret", "PLAIN", "handshake failed reason=ACCESS_REFUSED - no credentials in the response to PLAIN"),
        (b"", "NONE", "handshake failed reason=COMMAND_INVALID - unknown authentication mechanism 'NONE'"),
    ],
)
def test_a_login_that_is_refused_is_logged_with_its_reason(
    log: Log, response: bytes, mechanism: str, line: str
) -> None:
    client = stranger(log)
    client.send(0, client.start_ok(response, mechanism))
    assert log.take() == [f"warning {line}"]
    client.connection.lose(client.now)
    assert all(each.startswith(("debug", "info")) for each in log.take())


def test_a_guest_from_elsewhere_is_logged_with_the_reason(log: Log) -> None:
    broker = Broker()
    broker.events.on_log = log.note
    client = Client(broker, is_loopback=False)
    client.feed(HEADER)
    client.send(0, client.start_ok(b"\0guest\0guest"))
    assert log.take()[1:] == [
        "warning login refused mechanism=PLAIN reason=user 'guest' can only connect via localhost"
    ]


def test_errors_are_logged_with_their_texts(log: Log) -> None:
    client = guest(log)
    client.answers(QueueDeclare(queue="q", passive=True))
    assert log.take() == ["warning channel error channel=1 code=404 reason=NOT_FOUND - no queue 'q' in vhost '/'"]
    assert log.fields["operation"] == "queue.declare"
    client.channel()
    client.answers(BasicQos(prefetch_size=1))
    assert log.take() == ["warning connection error code=540 reason=NOT_IMPLEMENTED - prefetch_size!=0 (1)"]
    client.send(0, ConnectionCloseOk())
    client.connection.lose(client.now)
    assert log.take() == ["info connection closed by=broker code=540"]


def test_what_an_operator_closes_is_no_warning(log: Log) -> None:
    client = guest(log)
    client.broker.close_connections("because", client.now)
    assert log.take() == ["info connection error code=320 reason=CONNECTION_FORCED - because"]


def test_missed_heartbeats_are_logged(log: Log) -> None:
    client = guest(log, heartbeat=2)
    client.broker.tick(client.now + 5)
    client.connection.lose(client.now)
    assert log.take() == ["warning connection closed by=broker reason=missed heartbeats from client, timeout: 2s"]


def test_a_handshake_that_takes_too_long_is_logged(log: Log) -> None:
    client = stranger(log)
    client.broker.tick(client.now + HANDSHAKE_TIME)
    client.connection.lose(client.now)
    assert log.take() == ["warning connection closed by=broker reason=handshake timeout"]


def test_another_protocol_is_logged(log: Log) -> None:
    broker = Broker()
    broker.events.on_log = log.note
    client = Client(broker)
    client.feed(b"GET / HTTP/1.1")
    client.connection.lose(client.now)
    assert log.take() == [
        "info connection accepted",
        "warning connection closed by=broker reason=the client speaks another protocol: HTTP",
    ]


def test_lines_are_counted_by_address() -> None:
    broker = Broker()
    log = Log(broker)
    connection = Amqp091Connection(broker, is_loopback=True, wake=lambda: None, name="[::1]:40000 -> [::1]:5672")
    connection.feed(HEADER, 0.0)
    assert log.addresses == {"[::1]"}


# --- alarms


def publishing(broker: Broker) -> Client:
    client = connected(broker)
    client.declare("q")
    return client


def test_a_publisher_waits_while_something_is_short() -> None:
    broker = Broker(memory_limit=1000)
    publisher, consumer = publishing(broker), connected(broker)
    broker.check_limits(publisher.now, memory=1001)
    assert not publisher.connection.is_blocked
    assert publisher.publish("", "q") == "connection.blocked"
    assert publisher.connection.is_blocked
    assert consumer.depth("q") == 0
    broker.check_limits(publisher.now, memory=1000)
    assert publisher.transcript() == "connection.unblocked"
    assert not publisher.connection.is_blocked
    assert consumer.depth("q") == 1
    assert consumer.transcript() == ""


@pytest.mark.parametrize(
    ("alarms", "reason"),
    [(["memory"], "low on memory"), (["disk"], "low on disk"), (["disk", "memory"], "low on memory & disk")],
)
def test_why(alarms: list[str], reason: str) -> None:
    broker = Broker()
    client = publishing(broker)
    for alarm in alarms:
        broker.set_alarm(alarm, True, client.now)
    client.send(1, BasicPublish(routing_key="q"))
    (blocked,) = client.receive()
    assert blocked.method.reason == reason
    for alarm in alarms:
        assert client.connection.is_blocked
        broker.set_alarm(alarm, False, client.now)
    assert not client.connection.is_blocked


def test_what_follows_a_publish_waits_in_its_order() -> None:
    broker = Broker()
    client = publishing(broker)
    broker.set_alarm("disk", True, client.now)
    for _ in range(2):
        client.publish("", "q", b"x" * 5000)
    client.send(1, BasicConsume(queue="q", no_ack=True, consumer_tag="c"))
    assert client.transcript() == ""
    broker.set_alarm("disk", False, client.now)
    assert client.transcript() == "connection.unblocked · basic.consume-ok · basic.deliver · basic.deliver"


def test_a_blocked_client_can_be_closed() -> None:
    broker = Broker()
    client = publishing(broker)
    broker.set_alarm("disk", True, client.now)
    client.publish("", "q")
    broker.close_connections("because", client.now)
    assert not client.connection.is_blocked
    assert "320" in client.transcript()


@pytest.mark.parametrize("method", [ConnectionOpen(), ConnectionTuneOk()])
def test_a_connections_methods_out_of_their_time(method: Method) -> None:
    client = connected()
    client.send(0, method)
    expected = f"connection 504 {method.name} CHANNEL_ERROR - unexpected method in connection state running"
    assert client.transcript() == expected


def test_a_text_that_is_too_long_ends_in_dots() -> None:
    client = connected()
    answer = client.answers(QueueDeclare(queue="é" * 127, passive=True))
    text = answer.removeprefix("channel 404 queue.declare ")
    assert len(text.encode("utf-8", "surrogateescape")) == 255
    assert text.endswith("...")


def test_what_waits_is_what_is_not_known_to_be_sent() -> None:
    client = connected()
    assert client.connection.waiting == 0
    client.connection.write(b"12345")
    assert client.connection.take_output() == b"12345"
    client.connection.write(b"678")
    assert client.connection.waiting == 8
    client.connection.sent(client.now)
    assert client.connection.waiting == 3


def test_a_broker_at_fault_closes_with_541() -> None:
    client = connected()
    client.connection.fail(client.now)
    assert client.transcript() == "connection 541 0.0 INTERNAL_ERROR - the broker failed; its log says how"


def two_turns() -> Job:
    yield


def test_a_channel_that_is_ended_twice_is_closed_once() -> None:
    client = Client(Broker()).open()
    client.channel()
    client.connection.do(two_turns(), client.now)
    for _ in range(2):
        client.connection.end_channel(1, PreconditionFailed("an operator's wish"), client.now)
    client.rest()
    assert client.transcript() == "channel 406 0.0 PRECONDITION_FAILED - an operator's wish"
    assert not client.connection.is_over
