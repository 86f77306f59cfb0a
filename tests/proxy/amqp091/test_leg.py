"""One leg alone: how it parts from its peer."""

import pytest
import trio
from trio.testing import MockClock

from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import ConnectionForced, FrameError
from amqproxy.amqp091.transitions import CLIENT, SERVER, ConnectionState, Peer
from tests.proxy.legs import leg_in
from tests.transcripts.words import octets, words

FORCED = ConnectionForced("because")


def test_what_the_log_calls_the_peers() -> None:
    assert [leg_in(ConnectionState.OPEN, peer)[0].name for peer in Peer] == ["client", "upstream"]


@pytest.mark.parametrize(
    ("lines", "sent"),
    [
        ([octets("connection.close-ok")], "connection.close 320"),
        ([octets("heartbeat, connection.close-ok")], "connection.close 320"),
        ([octets("1: basic.publish, 1: header 5"), octets("connection.close-ok")], "connection.close 320"),
        (
            [octets("connection.close 200"), octets("connection.close-ok")],
            "connection.close 320, connection.close-ok",
        ),
        (
            [octets("connection.close 200, connection.close 200, connection.close-ok")],
            "connection.close 320, connection.close-ok, connection.close-ok",
        ),
        ([octets("connection.tune"), octets("connection.close-ok")], "connection.close 320"),
        ([b"nonsense, and so", octets("connection.close-ok")], "connection.close 320"),
        ([b"nonsense", octets("connection.close-ok")[:4], octets("connection.close-ok")[4:]], "connection.close 320"),
    ],
)
async def test_a_peer_that_answers(lines: list[bytes | None], sent: str, autojump_clock: MockClock) -> None:
    leg, script = leg_in(ConnectionState.OPEN, CLIENT, *lines)
    await leg.send_close(FORCED, timeout=5.0)
    assert words(script.told) == sent
    assert script.ends == ["EOF"]
    assert trio.current_time() == 0


@pytest.mark.parametrize("lines", [[b""], [octets("heartbeat"), b""], [None]])
async def test_a_peer_that_goes(lines: list[bytes | None], autojump_clock: MockClock) -> None:
    leg, script = leg_in(ConnectionState.OPEN, CLIENT, *lines)
    await leg.send_close(FORCED, timeout=5.0)
    assert words(script.told) == "connection.close 320"
    assert trio.current_time() == 0


@pytest.mark.parametrize("lines", [[], [octets("heartbeat")], [b"nonsense"]])
async def test_a_peer_that_does_not_answer(lines: list[bytes | None], autojump_clock: MockClock) -> None:
    leg, script = leg_in(ConnectionState.OPEN, SERVER, *lines)
    await leg.send_close(FORCED, timeout=5.0)
    assert words(script.told) == "connection.close 320"
    assert trio.current_time() == pytest.approx(5.0)


@pytest.mark.parametrize(
    "state",
    [
        ConnectionState.GREETED,
        ConnectionState.STARTED,
        ConnectionState.ANSWERED,
        ConnectionState.TUNED,
        ConnectionState.AGREED,
    ],
)
async def test_a_peer_that_would_not_understand(state: ConnectionState) -> None:
    leg, script = leg_in(state, CLIENT)
    assert not leg.takes_close
    await leg.send_close(FORCED, timeout=5.0)
    assert script.told == b""


async def test_a_peer_whose_close_was_not_answered() -> None:
    leg, script = leg_in(ConnectionState.OPEN, SERVER)
    leg.connection.feed(SERVER, octets("connection.close 320"))
    await leg.send_close(FORCED, timeout=5.0)
    assert words(script.told) == "connection.close-ok"


async def test_the_close_has_the_error() -> None:
    leg, script = leg_in(ConnectionState.OPENING, CLIENT, b"")
    await leg.send_close(FrameError("too large", class_id=60, method_id=40), timeout=5.0)
    (close,) = Connection().readers[SERVER].feed(script.told)
    assert close.method.reply_text == "FRAME_ERROR - too large"
    assert (close.method.failing_class_id, close.method.failing_method_id) == (60, 40)
