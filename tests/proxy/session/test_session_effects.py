"""What is done of what rules want, besides sending."""

import structlog

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.transitions import CLIENT, SERVER, ConnectionState
from amqproxy.proxy.amqp091.pass_through import PassThrough
from amqproxy.proxy.faulty_transport import FaultyTransport
from amqproxy.proxy.interception.effects import InterceptorEffects
from amqproxy.proxy.mirroring.mirror_publisher import MirrorLogin
from amqproxy.proxy.session.rule_log import RuleLog
from amqproxy.proxy.session.session_effects import impair, log_effects, send_copies
from amqproxy.proxy.session.session_report import SessionReport
from amqproxy.proxy.session.session_tasks import SessionTasks
from amqproxy.rules.context import Client
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.rules.faults.impairments import Latency
from amqproxy.rules.verdict import MirroredCopy, Verdict
from amqproxy.taps.metrics import Metrics
from tests.proxy.legs import leg_in
from tests.transcripts.words import octets

PUBLISH = Command.received([Frame(octets("1: basic.publish"))])


class Copies:
    """Takes copies as `Mirrors` does; it fails if it `is_broken`."""

    def __init__(self, *, is_broken: bool = False) -> None:
        self.taken: list[tuple[MirroredCopy, MirrorLogin]] = []
        self._is_broken = is_broken

    def put(self, copy: MirroredCopy, login: MirrorLogin) -> None:
        if self._is_broken:
            raise ZeroDivisionError
        self.taken.append((copy, login))


def report() -> SessionReport:
    return SessionReport(1, "a-b", Metrics(), None, RuleLog(lambda: 0.0))


def test_lines_and_refusals_are_logged_in_order(log: list[structlog.typing.EventDict]) -> None:
    legs = {peer: leg_in(ConnectionState.OPEN, peer)[0] for peer in (CLIENT, SERVER)}
    passage = PassThrough(legs, Client(session=1, user="guest"), [])
    refused = Verdict(command=None, marks=("no",))
    effects = InterceptorEffects(logged=[("info", "one"), ("warning", "two")], refused=[(CLIENT, PUBLISH, refused)])
    log_effects(effects, passage, report(), RuleSet(()))
    assert [(each["log_level"], each["event"]) for each in log] == [
        ("info", "one"),
        ("warning", "two"),
        ("warning", "refused"),
    ]
    assert (log[-1]["rule"], log[-1]["method"], log[-1]["session"]) == ("no", "basic.publish", 1)


def test_copies_go_to_their_mirrors_with_the_login_of_the_client() -> None:
    mirrors, upstream = Copies(), leg_in(ConnectionState.OPEN, SERVER)[0].connection
    copy = MirroredCopy(PUBLISH)
    login = MirrorLogin(upstream.client, "/")
    send_copies([copy], mirrors, login, report())
    assert mirrors.taken == [(copy, login)]


def test_copies_that_cannot_be_sent_are_counted(log: list[structlog.typing.EventDict]) -> None:
    upstream = leg_in(ConnectionState.OPEN, SERVER)[0].connection
    login = MirrorLogin(upstream.client, "/")
    for mirrors, known in ((None, login), (Copies(), None), (Copies(is_broken=True), login)):
        session = report()
        send_copies([MirroredCopy(PUBLISH)], mirrors, known, session)
        assert session.metrics.copies_dropped.labels("upstream")._value.get() == 1
    assert [each["event"] for each in log if each["log_level"] == "error"] == ["copy not made"]


async def test_bytes_are_impaired_on_their_way_to_one_peer() -> None:
    legs = {peer: leg_in(ConnectionState.OPEN, peer)[0] for peer in (CLIENT, SERVER)}
    latency = [Latency(CLIENT, delay=2)]
    impair(latency, legs, None)
    assert not isinstance(legs[CLIENT].transport, FaultyTransport)
    tasks = SessionTasks()
    for _ in range(2):
        impair(latency, legs, tasks)
    assert isinstance(legs[CLIENT].transport, FaultyTransport)
    assert not isinstance(legs[SERVER].transport, FaultyTransport)
    assert tasks.count == 1, "for both"
