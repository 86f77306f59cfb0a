"""The end of a session: what the report has of it, and what each peer is sent."""

from collections.abc import Callable

import pytest
import trio

from amqproxy.amqp091.errors import FrameError
from amqproxy.amqp091.transitions import CLIENT, SERVER, ConnectionState
from amqproxy.proxy.interception.effects import ConnectionRefusal
from amqproxy.proxy.leg import Leg
from amqproxy.proxy.session.closing import Closing
from amqproxy.proxy.session.session_report import SessionReport
from amqproxy.rules.context import Client
from amqproxy.rules.verdict import Close, Scope
from amqproxy.taps.metrics import Metrics
from tests.proxy.legs import Script, leg_in
from tests.transcripts.words import words

WRONG = FrameError("no such frame", offset=3)
NO = ConnectionRefusal(Close(Scope.CONNECTION, 530, "NOT_ALLOWED - no"))


class Ending:
    """Both legs of a session that ends, in the same state."""

    def __init__(self, state: ConnectionState = ConnectionState.OPEN, client: Client | None = None) -> None:
        self.report = SessionReport(1, "a-b", Metrics(), None)
        self._client = client or Client(session=1)
        self._scripts: dict[str, Script] = {}
        self.legs: dict[object, Leg] = {}
        for peer in (CLIENT, SERVER):
            self.legs[peer], self._scripts[str(peer)] = leg_in(state, peer, None)
        self.closing = Closing({}, self.report)
        self.closing.legs = self.legs

    async def sent(self) -> dict[str, str]:
        """What each peer is sent; or how its connection is closed."""
        await self.closing.reset_lost()
        await self.closing.send_closes(self._client, 1.0)
        await self.closing.linger()
        return {name: words(script.told) or ", ".join(script.ends) for name, script in self._scripts.items()}


@pytest.mark.parametrize(
    ("end", "by", "code", "client", "server"),
    [
        (lambda closing: closing.fail(), "proxy", 541, "connection.close 541", "connection.close 541"),
        (lambda closing: closing.abort("at once"), "proxy", 320, "connection.close 320", "connection.close 320"),
        (lambda closing: closing.drained(), "proxy", 320, "", "connection.close 320"),
        (lambda closing: closing.refuse_by_rule(NO), "proxy", 530, "connection.close 530", "connection.close 320"),
        (
            lambda closing: closing.refuse(CLIENT, *[WRONG] * 2),
            "proxy",
            501,
            "connection.close 501",
            "connection.close 320",
        ),
        (
            lambda closing: closing.refuse(SERVER, *[WRONG] * 2),
            "proxy",
            501,
            "connection.close 320",
            "connection.close 501",
        ),
        (lambda closing: closing.reset(CLIENT, "is silent"), "proxy", 0, "reset", "connection.close 320"),
        (lambda closing: closing.reset(SERVER, "is silent"), "server", 0, "connection.close 320", "reset"),
        (lambda closing: closing.lose_upstream("is gone"), "server", 0, "connection.close 320", ""),
    ],
)
async def test_each_way_to_end(end: Callable[[Closing], None], by: str, code: int, client: str, server: str) -> None:
    ending = Ending()
    end(ending.closing)
    assert ending.report.end is not None
    assert (ending.report.end.by, ending.report.end.code) == (by, code)
    assert await ending.sent() == {"client": client, "server": server}


async def test_an_abort_keeps_what_a_peer_is_to_be_sent_already() -> None:
    ending = Ending()
    ending.closing.refuse_by_rule(NO)
    ending.closing.abort("at once")
    assert ending.report.end is not None
    assert ending.report.end.code == 530
    assert (await ending.sent())["client"] == "connection.close 530"


async def test_an_upstream_that_closes_for_the_silence_of_the_client(autojump_clock: trio.testing.MockClock) -> None:
    ending = Ending()
    assert not ending.closing.reset_if_silent(SERVER, 320)
    ending.legs[CLIENT].transport.is_listening = True
    await trio.sleep(130)
    assert not ending.closing.reset_if_silent(CLIENT, 320)
    assert ending.closing.reset_if_silent(SERVER, 320)
    assert (await ending.sent())["client"] == "reset"


@pytest.mark.parametrize(
    ("state", "announced", "sent"),
    [
        (ConnectionState.ANSWERED, True, "connection.close 530"),
        (ConnectionState.ANSWERED, False, ""),
        (ConnectionState.AGREED, False, "connection.close 530"),
        (ConnectionState.TUNED, True, ""),
    ],
)
async def test_a_refused_login_is_sent_close_where_the_client_expects_it(
    state: ConnectionState, *, announced: bool, sent: str
) -> None:
    capabilities = {"capabilities": {"authentication_failure_close": announced}}
    ending = Ending(state, Client(session=1, properties=capabilities))
    ending.closing.refuse_by_rule(NO)
    assert (await ending.sent())["client"] == sent


def test_what_still_goes_to_the_upstream() -> None:
    ending = Ending()
    assert ending.closing.upstream_takes_more
    ending.closing.abort("at once")
    assert ending.closing.upstream_takes_more
    ending.closing.fail()
    assert not ending.closing.upstream_takes_more
    assert not Ending(ConnectionState.TUNED).closing.upstream_takes_more
