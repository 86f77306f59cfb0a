"""Clients that log in at the proxy, in transcripts."""

import gc
import math
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.amqp010.controls import ConnectionHeartbeat
from amqproxy.amqp010.frame import encode_method
from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.frame import every_frame
from amqproxy.amqp091.methods import ConnectionStartOk, ConnectionUpdateSecret, Method
from amqproxy.amqp091.wire import Table
from amqproxy.peer import SERVER
from amqproxy.proxy.amqp091.login_handshake import Amqp091LoginHandshake
from amqproxy.proxy.amqp091.traffic import MOST_SECRETS
from amqproxy.proxy.faulty_transport import FaultyTransport
from amqproxy.proxy.leg import Leg
from amqproxy.proxy.logins.attempt import Identity, LoginAttempt, LoginDenied
from amqproxy.proxy.logins.credential import Credential
from amqproxy.proxy.logins.handshake import Offer
from amqproxy.proxy.logins.login_check import Login
from amqproxy.proxy.session import parked_session
from amqproxy.proxy.session.login_transport import LoginTransport
from amqproxy.proxy.session.session import Session
from amqproxy.proxy.session.traffic import Traffic
from amqproxy.proxy.upstream import Unreachable
from amqproxy.proxy.upstreams.member import Member
from amqproxy.proxy.upstreams.reach import BrokerLogin
from amqproxy.pump.pumps import are_available
from amqproxy.rules.access.refuse import Refuse
from amqproxy.rules.context import Client
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.faults.fault import Fault
from amqproxy.rules.faults.stream_faults import SlicingFault
from amqproxy.rules.matching.match import Match
from amqproxy.rules.rewriting.secret import Secret
from amqproxy.sockets.transport import SocketTransport, Transport
from tests.proxy import stage as staging
from tests.proxy.amqp010_script import ATTACH, CLOSE, DETACH, LOGIN, MESSAGES
from tests.proxy.amqp010_stage import close, names, play, say
from tests.proxy.recording_tap import Audience
from tests.proxy.session.collector import without_collector
from tests.proxy.stage import OPEN, Stage, staged
from tests.transcripts.words import method, octets

CLOSES = {"capabilities": {"authentication_failure_close": True}}

LOGGED_IN = """
    >> header
    client: connection.start
    >> connection.start-ok
    client: connection.tune
    >> connection.tune-ok, connection.open
    broker: header
    << connection.start
    broker: connection.start-ok
    << connection.tune
    broker: connection.tune-ok, connection.open
    << connection.open-ok
"""


@dataclass
class Known:
    """A check that knows one user, whose identity is `name`."""

    password: str = "guest"
    name: str = "guest"
    credential: Credential | None = None
    expires_at: float = math.inf
    passwords_need_tls: bool = False
    certificate_login: str = "common_name"
    mechanisms: tuple[str, ...] = ("PLAIN", "AMQPLAIN", "EXTERNAL")
    vhosts: tuple[str, ...] = ("/",)
    attempts: list[LoginAttempt] = field(default_factory=list)
    is_failure: bool = False
    is_slow: bool = False
    is_open: bool = True

    async def check(self, attempt: LoginAttempt) -> Identity:
        self.attempts.append(attempt)
        if self.is_slow:
            await trio.sleep_forever()
        if attempt.password.reveal() != self.password:
            raise LoginDenied("wrong password", is_failure=self.is_failure)
        return Identity(self.name, "token", credential=self.credential, expires_at=self.expires_at)

    def admits_anonymous(self, address: str) -> bool:
        return self.is_open

    async def check_vhost(self, identity: Identity, vhost: str, address: str) -> bool:
        return vhost in self.vhosts


def received_by_broker(stage: Stage) -> dict[type[Method], Method]:
    """Return the methods that the broker was sent, behind the protocol header."""
    return {type(each.method): each.method for each in every_frame(bytes(stage.broker.seen[8:]), 0)}


async def test_a_client_logs_in_at_the_proxy_and_the_proxy_at_the_broker() -> None:
    check = Known()
    async with staged(LOGGED_IN, login=Login(check)) as stage:
        await stage.play(
            """
            >> 1: channel.open
            << 1: channel.open-ok
            """
        )
    (attempt,) = check.attempts
    assert (attempt.mechanism, attempt.user, attempt.client.user) == ("PLAIN", "guest", "guest")
    assert "guest" not in repr(attempt.password)


async def test_the_broker_gets_the_clients_own_login() -> None:
    async with staged(LOGGED_IN, login=Login(Known())) as stage:
        start = received_by_broker(stage)[ConnectionStartOk]
    assert start == ConnectionStartOk(mechanism="PLAIN", response=b"\0guest\0guest", locale="en_US")


@pytest.mark.parametrize(
    ("mechanisms", "mechanism", "response"),
    [
        (b"AMQPLAIN PLAIN", "PLAIN", b"\0service\0secret"),
        (b"AMQPLAIN", "AMQPLAIN", Table({"LOGIN": "service", "PASSWORD": "secret"}).octets),
    ],
)
async def test_the_broker_gets_the_credential_of_the_identity(
    mechanisms: bytes, mechanism: str, response: bytes
) -> None:
    check = Known(credential=Credential("service", Secret("secret")))
    script, _, rest = LOGGED_IN.partition("<< connection.start\n")
    async with staged(script, login=Login(check)) as stage:
        stage.broker.say(method("connection.start", mechanisms=mechanisms, locales=b"en_US"))
        await stage.play(rest)
        start = received_by_broker(stage)[ConnectionStartOk]
    assert (start.mechanism, start.response) == (mechanism, response)


async def test_later_clients_are_offered_what_a_broker_has_offered() -> None:
    login = Login(Known())
    async with staged(login=login) as stage:
        await stage.play(LOGGED_IN.partition("<< connection.start\n")[0])
        stage.broker.say(method("connection.start", server_properties=Table({"version": "4.3"}), mechanisms=b"PLAIN"))
        await stage.play("broker: connection.start-ok")
        stage.broker.say(method("connection.tune", channel_max=100, frame_max=65_536, heartbeat=30))
        # the client agreed to 2047 channels
        await stage.play("client: connection.close 403")
        assert b"offers less" not in stage.client.seen
    async with staged(">> header\nclient: connection.start", login=login) as stage:
        first, *_ = every_frame(bytes(stage.client.seen), 0)
        assert first.method.server_properties == Table({"version": "4.3"})
        await stage.play(">> connection.start-ok\nclient: connection.tune")
        tune = every_frame(bytes(stage.client.seen), 0)[1].method
        assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (100, 65_536, 30)


async def test_a_client_may_send_ahead_of_the_broker() -> None:
    async with staged(LOGGED_IN.partition(">> connection.tune-ok")[0], login=Login(Known())) as stage:
        stage.client.say(b"".join(map(octets, ("connection.tune-ok", "connection.open", "1: channel.open"))))
        await stage.play("broker: header")
        stage.client.say(octets("2: channel.open"))
        await stage.play(
            """
            << connection.start
            broker: connection.start-ok
            << connection.tune
            broker: connection.tune-ok, connection.open
            << connection.open-ok
            client: connection.open-ok
            broker: 1: channel.open, 2: channel.open
            << 1: channel.open-ok
            """
        )


@pytest.mark.parametrize(
    ("properties", "end"), [(CLOSES, "client: connection.close 403"), ({}, "client: EOF")], ids=["told", "hung up on"]
)
async def test_a_wrong_password_is_answered_as_by_rabbitmq(properties: dict[str, Any], end: str) -> None:
    async with staged(">> header\nclient: connection.start", login=Login(Known(password="other"))) as stage:
        stage.client.say(
            method(
                "connection.start-ok",
                mechanism="PLAIN",
                response=b"\0guest\0guest",
                client_properties=Table(properties),
            )
        )
        await stage.play(end)
        if properties:
            assert b"ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For" in stage.client.seen
            await stage.play(">> connection.close-ok\nclient: EOF")
        assert not hasattr(stage, "broker")


async def test_a_mechanism_that_is_not_offered_is_refused() -> None:
    async with staged(">> header\nclient: connection.start", login=Login(Known())) as stage:
        start_ok = method("connection.start-ok", mechanism="EXTERNAL", client_properties=Table(CLOSES))
        stage.client.say(start_ok)
        await stage.play("client: connection.close 503\n>> connection.close-ok\nclient: EOF")


async def test_passwords_may_need_tls() -> None:
    async with staged(">> header\nclient: EOF", login=Login(Known(passwords_need_tls=True))):
        pass


async def test_a_virtual_host_may_be_refused() -> None:
    script = LOGGED_IN.partition("broker: header")[0]
    async with staged(script + "client: connection.close 530", login=Login(Known(vhosts=()))) as stage:
        assert b"NOT_ALLOWED - access to vhost '/' refused for user 'guest'" in stage.client.seen
        await stage.play(">> connection.close-ok\nclient: EOF")
        assert not hasattr(stage, "broker")


@pytest.mark.parametrize("refusal", ["connection.close 403", "EOF"])
async def test_a_broker_may_refuse_the_proxy(refusal: str) -> None:
    script = LOGGED_IN.partition("<< connection.tune")[0]
    async with staged(f"{script} << {refusal}\nclient: connection.close 403", login=Login(Known())) as stage:
        await stage.play(">> connection.close-ok\nclient: EOF")


async def test_the_client_gets_the_brokers_refusal_of_a_virtual_host() -> None:
    script = LOGGED_IN.rpartition("<<")[0]
    async with staged(script, login=Login(Known())) as stage:
        await stage.play(
            """
            << connection.close 530
            client: connection.close 530
            >> connection.close-ok
            broker: connection.close-ok
            << EOF
            client: EOF
            """
        )


async def test_a_client_that_no_broker_takes_is_told_320() -> None:
    async def refuse() -> Transport:
        raise Unreachable("refused", "nobody listens")

    script = LOGGED_IN.partition("broker: header")[0]
    async with staged(script + "client: connection.close 320", dial=refuse, login=Login(Known())) as stage:
        assert b"nobody listens" in stage.client.seen
        await stage.play(">> connection.close-ok\nclient: EOF")


@pytest.mark.parametrize("lines", range(1, 5))
async def test_a_client_may_leave_at_any_time(lines: int) -> None:
    async with staged("", login=Login(Known())) as stage:
        before = LOGGED_IN.strip().splitlines()[: 2 * lines]
        await stage.play("\n".join(before))
        stage.client.socket.close()
        await stage.is_over.wait()


async def test_a_client_may_close_before_it_opens_a_virtual_host() -> None:
    script = LOGGED_IN.partition(">> connection.tune-ok")[0]
    async with staged(script, login=Login(Known())) as stage:
        stage.client.say(octets("connection.tune-ok, connection.close"))
        await stage.play("client: connection.close-ok, EOF")


async def test_rules_see_the_identity_in_place_of_the_claimed_user() -> None:
    rules = RuleSet([Refuse(name="no bob", match=Match(user=("bob",), method=("connection.open",)))])
    script = LOGGED_IN.partition(">> connection.tune-ok")[0]
    async with staged(script, login=Login(Known(name="bob")), rules=rules) as stage:
        stage.client.say(octets("connection.tune-ok, connection.open"))
        await stage.play("client: connection.close 530")
        assert not hasattr(stage, "broker")


async def test_a_client_of_0_10_logs_in_likewise() -> None:
    check = Known(password="hidden", credential=Credential("service", Secret("secret")), vhosts=("test",))
    (_, header), (_, start), (_, start_ok), (_, tune), (_, opening), (_, open_ok) = LOGIN
    async with staged(login=Login(check)) as stage:
        await say(stage.client, header)
        assert names(stage.client.look()[8:]) == ["connection.start"]
        await say(stage.client, start_ok)
        assert names(stage.client.look()) == ["connection.tune"]
        await say(stage.client, opening)
        assert stage.broker.look() == header
        await say(stage.broker, start)
        await say(stage.broker, encode_method(0, ConnectionHeartbeat()))
        assert b"service\0secret" in stage.broker.look()
        await say(stage.broker, tune)
        # the client has agreed to 16 channels
        assert names(stage.broker.look()) == ["connection.tune-ok", "connection.open"]
        await say(stage.broker, open_ok)
        assert stage.client.look() == open_ok
        await play(stage, [*ATTACH, *MESSAGES, *DETACH, *CLOSE])
        await close(stage)
    (attempt,) = check.attempts
    assert (attempt.user, attempt.client.user) == ("guest", "guest")


async def test_a_wrong_password_of_0_10_is_answered_with_a_close() -> None:
    (_, header), _, (_, start_ok), *_ = LOGIN
    async with staged(login=Login(Known())) as stage:
        await say(stage.client, header)
        stage.client.look()
        await say(stage.client, start_ok)
        assert names(stage.client.look()) == ["connection.close"]


class Tokens:
    """A source of tokens, of which each is used until the next is made."""

    def __init__(self) -> None:
        self.made = 0
        self.now = self.make()

    def make(self) -> Credential:
        self.made += 1
        self.now = Credential("", Secret(f"token {self.made}"), is_token=True)
        return self.now

    async def current(self) -> Credential:
        return self.now

    def subscribe(self, renewed: Callable[[Credential], None]) -> Callable[[], None]:
        return lambda: None


@asynccontextmanager
async def with_token(rules: RuleSet | None = None) -> AsyncIterator[tuple[Stage, Tokens]]:
    """Yield an open session for which the proxy has logged in with a token."""
    source = Tokens()
    async with staged(LOGGED_IN, login=Login(Known()), credentials=source, rules=rules) as stage:
        assert received_by_broker(stage)[ConnectionStartOk].response == b"\0\0token 1"
        assert stage.session.token_source is source
        yield stage, source


@pytest.mark.parametrize("rules", [None, RuleSet([Refuse(name="r", match=Match(queue=("never",)))])])
async def test_a_new_token_is_sent_to_the_broker_and_its_answer_not_to_the_client(rules: RuleSet | None) -> None:
    async with with_token(rules) as (stage, source):
        await stage.play(">> 1: channel.open\n<< 1: channel.open-ok")
        for number in (2, 3):
            token = source.make()
            stage.session.renew_token(token)
            await stage.play("broker: connection.update-secret")
            assert received_by_broker(stage)[ConnectionUpdateSecret].new_secret == f"token {number}".encode()
            assert stage.session.traffic is not None
            mirror = stage.session.traffic._login()
            assert mirror is not None
            assert mirror.start.response == f"\0\0token {number}".encode()
            stage.session.renew_token(token)
            await stage.play(
                f"""
                >> {number}: channel.open
                << connection.update-secret-ok
                client: nothing
                << {number}: channel.open-ok
                """
            )
        await stage.play("broker: nothing")


async def test_no_token_is_sent_while_an_earlier_one_is_not_answered() -> None:
    async with with_token() as (stage, source):
        stage.session.renew_token(source.make())
        await stage.play("broker: connection.update-secret")
        second = source.make()
        stage.session.renew_token(second)
        await stage.play("broker: nothing")
        await stage.play("<< connection.update-secret-ok\nclient: nothing")
        stage.session.renew_token(second)
        await stage.play("broker: connection.update-secret")


async def test_a_drain_goes_on_while_a_token_is_not_answered() -> None:
    async with with_token() as (stage, source):
        stage.session.renew_token(source.make())
        await stage.play("broker: connection.update-secret")
        stage.session.drain()
        await stage.play("client: connection.close 320")
        await stage.play("<< connection.update-secret-ok\nclient: nothing")
        await stage.play(">> connection.close-ok\nclient: EOF")


async def test_a_virtual_host_that_is_down_is_no_refusal() -> None:
    text = "INTERNAL_ERROR - access to vhost '/' refused for user 'guest': vhost '/' is down"
    async with staged(LOGGED_IN.rpartition("<<")[0], login=Login(Known())) as stage:
        stage.broker.say(method("connection.close", reply_code=541, reply_text=text))
        await stage.play("client: connection.close 320")
        assert b"is down" in stage.client.seen


async def test_a_session_knows_when_its_token_has_expired() -> None:
    async with with_token() as (stage, source):
        assert not stage.session.has_expired(1e12)
        stage.session.renew_token(msgspec.structs.replace(source.make(), expires_at=100.0))
        await stage.play("broker: connection.update-secret")
        assert not stage.session.has_expired(99.9)
        assert stage.session.has_expired(100.0)


@pytest.mark.parametrize("credential", [None, Credential("service", Secret("secret"))])
async def test_a_login_ends_with_its_token_unless_the_broker_has_it(credential: Credential | None) -> None:
    check = Known(credential=credential, expires_at=5e9)
    async with staged(LOGGED_IN, login=Login(check)) as stage:
        assert stage.session.login_ends_at == (math.inf if credential is None else 5e9)


each_passage = pytest.mark.parametrize("rules", [None, RuleSet([Refuse(name="r", match=Match(queue=("never",)))])])


def update(secret: str) -> bytes:
    return method("connection.update-secret", new_secret=secret.encode(), reason="renewed")


@each_passage
@pytest.mark.parametrize("is_tapped", [False, True])
async def test_a_new_secret_of_a_client_is_checked_and_goes_no_further(
    rules: RuleSet | None, *, is_tapped: bool
) -> None:
    check = Known(credential=Credential("service", Secret("secret")), expires_at=5e9)
    tap = Audience() if is_tapped else None
    async with staged(LOGGED_IN, login=Login(check), rules=rules, tap=tap) as stage:
        check.expires_at, check.password = 6e9, "next"
        stage.client.say(octets("1: channel.open") + update("next") + octets("2: channel.open"))
        await stage.play("""
            client: connection.update-secret-ok
            broker: 1: channel.open, 2: channel.open
            << 1: channel.open-ok, 2: channel.open-ok
        """)
        assert stage.session.login_ends_at == 6e9
        assert (check.attempts[1].mechanism, check.attempts[1].user) == ("PLAIN", "guest")
        assert check.attempts[1].password == Secret("next")


@each_passage
@pytest.mark.parametrize(
    ("secret", "name", "is_failure", "text"),
    [
        ("wrong", "guest", False, "NOT_ALLOWED - New secret was refused by one of the backends"),
        ("wrong", "guest", True, "NOT_ALLOWED - Secret update failed"),
        ("guest", "another", False, "NOT_ALLOWED - New secret was refused by one of the backends"),
    ],
)
async def test_a_new_secret_that_is_refused_ends_the_connection(
    secret: str, name: str, text: str, rules: RuleSet | None, *, is_failure: bool
) -> None:
    check = Known(credential=Credential("service", Secret("secret")), is_failure=is_failure)
    async with staged(LOGGED_IN, login=Login(check), rules=rules) as stage:
        check.name = name
        stage.client.say(update(secret))
        await stage.play("""
            client: connection.close 530
            broker: connection.close 320
            >> connection.close-ok
            broker: nothing
            << connection.close-ok
            client: EOF
        """)
        assert text.encode() in stage.client.seen


@each_passage
async def test_a_new_secret_that_the_broker_needs_is_checked_and_passed_on(rules: RuleSet | None) -> None:
    check = Known()
    async with staged(LOGGED_IN, login=Login(check), rules=rules) as stage:
        check.password = "next"
        stage.client.say(update("next"))
        await stage.play("broker: connection.update-secret")
        assert received_by_broker(stage)[ConnectionUpdateSecret].new_secret == b"next"
        await stage.play("<< connection.update-secret-ok")
        assert stage.session.traffic is not None
        mirror = stage.session.traffic._login()
        assert mirror is not None
        assert mirror.start.response == b"\0guest\0next"


async def test_new_secrets_do_not_pile_up() -> None:
    check = Known(credential=Credential("service", Secret("secret")))
    async with staged(LOGGED_IN, login=Login(check)) as stage:
        check.is_slow = True
        for _ in range(MOST_SECRETS):
            stage.client.say(update("guest"))
        await stage.play("client: nothing")
        stage.client.say(update("guest"))
        await stage.play("client: connection.close 530")
        assert len(check.attempts) == 2


@pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled")
async def test_a_new_secret_is_checked_when_a_pump_has_had_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "frames_a_pump", 1)
    check = Known(credential=Credential("service", Secret("secret")))
    async with staged(LOGGED_IN, login=Login(check)) as stage:
        for number in (1, 2, 3):
            await stage.play(f">> {number}: channel.open\n<< {number}: channel.open-ok")
            stage.client.say(update("guest"))
            await stage.play("client: connection.update-secret-ok\nbroker: nothing")
            assert len(check.attempts) == number + 1


async def test_rules_see_a_new_secret_before_it_is_checked() -> None:
    check = Known(credential=Credential("service", Secret("secret")))
    rules = RuleSet([Refuse(name="r", match=Match(method="connection.update-secret"), scope=Scope.CONNECTION)])
    async with staged(LOGGED_IN, login=Login(check), rules=rules) as stage:
        stage.client.say(update("guest"))
        await stage.play("client: connection.close 530")
        assert len(check.attempts) == 1


async def test_a_client_without_a_login_at_the_proxy_sends_the_broker_its_secret() -> None:
    async with staged(OPEN) as stage:
        stage.client.say(update("next"))
        await stage.play("broker: connection.update-secret\n<< connection.update-secret-ok")


async def test_mirrors_log_in_as_the_proxy_has() -> None:
    check = Known(credential=Credential("service", Secret("secret")))
    async with staged(LOGGED_IN, login=Login(check)) as stage:
        assert stage.session.traffic is not None
        login = stage.session.traffic._login()
        assert login is not None
        assert login.start.response == b"\0service\0secret"


async def test_an_incomplete_frame_at_the_end_is_no_failure() -> None:
    async with staged(">> header\nclient: connection.start", login=Login(Known())) as stage:
        stage.client.say(b"\1\0\0")
        with capture_logs() as lines:
            await stage.play(">> EOF\nclient: EOF")
        assert not [each for each in lines if each["log_level"] == "error"]


@pytest.mark.parametrize("rules", [None, RuleSet([Refuse(name="r", match=Match(queue=("never",)))])])
async def test_the_broker_is_known_once_it_is_reached(rules: RuleSet | None) -> None:
    async with staged(LOGGED_IN, login=Login(Known(name="bob")), rules=rules) as stage:
        traffic = stage.session.traffic
        assert traffic is not None
        traffic.learn(upstream="rabbit-2:5672")
        assert (traffic.passage.client.upstream, traffic.passage.client.user) == ("rabbit-2:5672", "bob")


async def test_a_fault_of_the_stream_does_not_stand_in_the_way() -> None:
    rules = RuleSet([Fault(name="slow", fault=SlicingFault(size=3))])
    async with staged(LOGGED_IN, login=Login(Known()), rules=rules) as stage:
        transport = stage.session.legs[SERVER].transport
        assert isinstance(transport, FaultyTransport)
        assert isinstance(transport.inner, SocketTransport)


async def test_heartbeats_while_the_client_waits_for_a_broker(mock_clock: MockClock) -> None:
    async def dial() -> Transport:
        await trio.sleep_forever()
        raise AssertionError

    async with staged(LOGGED_IN.partition(">> connection.tune-ok")[0], dial=dial, login=Login(Known())) as stage:
        stage.client.say(method("connection.tune-ok", channel_max=2047, frame_max=131_072, heartbeat=4))
        stage.client.say(octets("connection.open"))
        await stage.play("client: nothing")
        for _ in range(5):
            mock_clock.jump(2.0)
            await stage.play("client: heartbeat")
            assert not stage.session.legs[SERVER].transport.is_listening


@dataclass
class Broker:
    """A transport that notes what it is sent."""

    sent: list[bytes] = field(default_factory=list)
    received: int = 0

    async def send(self, data: bytes) -> None:
        self.sent.append(data)

    async def receive(self) -> bytes:
        return b""


async def test_what_follows_the_opening_in_the_next_chunk_waits_for_the_broker() -> None:
    broker = Broker()

    async def reach(client: Client, login: BrokerLogin, member: Member | None) -> Any:
        await trio.lowlevel.checkpoint()
        return broker

    transport = LoginTransport(
        Amqp091LoginHandshake(Offer(), 4096),
        Known(),
        reach,
        known=Client,
        identify=lambda user: None,
        beat=trio.sleep_forever,
        accept=lambda attempt, identity, is_passed_on: None,
        follow=lambda source, credential: None,
        log=lambda level, text: None,
        certificate_name="",
        is_secure=True,
    )
    await transport.receive()
    await transport.send(octets("connection.start-ok"))
    await transport.receive()
    await transport.send(octets("connection.tune-ok, connection.open, 1: channel.open"))
    async with trio.open_nursery() as nursery:  # nothing has been received since
        nursery.start_soon(transport.send, octets("2: channel.open"))
        await wait_all_tasks_blocked()
        assert broker.sent == []
        await transport.receive()
    assert broker.sent == [octets("1: channel.open"), octets("2: channel.open")]


@pytest.mark.parametrize("is_open", [True, False])
async def test_anonymous_is_offered_to_networks(*, is_open: bool) -> None:
    credential = Credential("service", Secret("secret"))
    check = Known(mechanisms=("PLAIN", "ANONYMOUS"), password="", is_open=is_open, credential=credential)
    async with staged(">> header\nclient: connection.start", login=Login(check)) as stage:
        assert (b"ANONYMOUS" in stage.client.seen) == is_open
        stage.client.say(method("connection.start-ok", mechanism="ANONYMOUS", response=b"me"))
        await stage.play("client: connection.tune" if is_open else "client: EOF")
        assert [each.mechanism for each in check.attempts] == ["ANONYMOUS"] * is_open


async def test_a_certificate_is_never_passed_on() -> None:
    async def reach(client: Client, login: BrokerLogin, member: Member | None) -> Any:
        return await (await login(None))(cast("Transport", Broker()), b"")

    logged: list[str] = []
    transport = LoginTransport(
        Amqp091LoginHandshake(Offer(), 4096),
        Known(password=""),
        reach,
        known=Client,
        identify=lambda user: None,
        beat=trio.sleep_forever,
        accept=lambda attempt, identity, is_passed_on: None,
        follow=lambda source, credential: None,
        log=lambda level, text: logged.append(text),
        certificate_name="CN=sensor",
        is_secure=True,
    )
    await transport.receive()
    await transport.send(method("connection.start-ok", mechanism="EXTERNAL"))
    await transport.receive()
    await transport.send(octets("connection.tune-ok, connection.open"))
    assert b"ACCESS_REFUSED" in await transport.receive()
    assert "a certificate cannot be passed on" in logged[0]


def test_a_parked_session_keeps_all_that_a_handshake_does_not_tell() -> None:
    told = {"session", "user", "mechanism", "vhost", "properties"}
    assert set(parked_session._FACTS) == set(Client.__struct_fields__) - told


@dataclass
class Shared(Broker):
    """A place on a shared connection, which is given back by `reset`."""

    is_given_back: bool = False

    async def reset(self) -> None:
        self.is_given_back = True


async def test_a_client_that_leaves_as_it_gets_its_place_gives_it_back() -> None:
    place, scope = Shared(), trio.CancelScope()

    async def reach(client: Client, login: BrokerLogin, member: Member | None) -> Any:
        raise AssertionError

    async def share(*args: object) -> Any:
        scope.cancel()
        return place, b""

    transport = LoginTransport(
        Amqp091LoginHandshake(Offer(), 4096),
        Known(),
        reach,
        known=Client,
        identify=lambda user: None,
        beat=trio.sleep_forever,
        accept=lambda attempt, identity, is_passed_on: None,
        follow=lambda source, credential: None,
        log=lambda level, text: None,
        certificate_name="",
        is_secure=True,
        share=share,
    )
    await transport.receive()
    await transport.send(octets("connection.start-ok"))
    await transport.receive()
    await transport.send(octets("connection.tune-ok, connection.open"))
    with scope:
        await transport.receive()
    assert place.is_given_back


async def test_a_login_leaves_no_garbage_that_has_to_be_collected() -> None:
    async def reach(client: Client, login: BrokerLogin, member: Member | None) -> Any:
        raise AssertionError

    class Owner:
        transport: LoginTransport

        def known(self) -> Client:
            return Client()

    owner = Owner()
    owner.transport = LoginTransport(
        Amqp091LoginHandshake(Offer(), 4096),
        Known(),
        reach,
        known=owner.known,
        identify=lambda user: None,
        beat=trio.sleep_forever,
        accept=lambda attempt, identity, is_passed_on: None,
        follow=lambda source, credential: None,
        log=lambda level, text: None,
        certificate_name="",
        is_secure=True,
    )
    await owner.transport.receive()
    await owner.transport.aclose()
    left = weakref.ref(owner)
    gc.disable()
    try:
        del owner
        assert left() is None
    finally:
        gc.enable()


async def test_a_session_whose_client_has_logged_in_leaves_no_garbage_either() -> None:
    def parts() -> int:
        kinds = (Session, LoginTransport, Traffic, Leg)
        return sum(isinstance(each, kinds) for each in gc.get_objects())

    with without_collector():
        before = parts()
        async with staged(LOGGED_IN, login=Login(Known())) as stage:
            assert parts() > before
            stage.client.perform("connection.close")
            await stage.broker.sees()
            stage.broker.perform("connection.close-ok, EOF")
            await stage.client.sees()
            stage.client.perform("EOF")
            await stage.is_over.wait()
            del stage.session
            await wait_all_tasks_blocked()
            assert parts() == before
