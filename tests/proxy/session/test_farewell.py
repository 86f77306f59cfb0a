"""How a client is asked to close."""

from __future__ import annotations

import trio
from trio.testing import wait_all_tasks_blocked

from amqproxy.amqp091.errors import ConnectionForced
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.transitions import CLIENT, ConnectionState
from amqproxy.proxy.session.farewell import Farewell
from tests.proxy.legs import leg_in
from tests.transcripts.words import octets, words

FORCED = ConnectionForced("because")


async def test_a_client_is_asked_once_and_answers() -> None:
    leg, script = leg_in(ConnectionState.OPEN, CLIENT)
    farewell = Farewell(leg)
    close = farewell.close(FORCED)
    assert close is not None
    assert farewell.is_leaving
    assert farewell.close(FORCED) is None
    await farewell.send_close(close)
    assert words(script.told) == "connection.close 320"
    assert not await farewell.is_answered()
    leg.connection.receive(CLIENT, Frame(octets("connection.close-ok")))
    assert await farewell.is_answered()


async def test_one_that_takes_no_close_is_not_asked() -> None:
    leg, _ = leg_in(ConnectionState.STARTED, CLIENT)
    assert Farewell(leg).close(FORCED) is None


async def test_a_close_of_its_own_is_answered_behind_ours() -> None:
    leg, script = leg_in(ConnectionState.OPEN, CLIENT)
    farewell = Farewell(leg)
    close = farewell.close(FORCED)
    assert close is not None
    leg.connection.receive(CLIENT, Frame(octets("connection.close")))

    async def answer() -> None:
        assert not await farewell.is_answered()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer)
        await wait_all_tasks_blocked()
        assert not script.told
        nursery.start_soon(farewell.send_close, close)
    assert words(script.told) == "connection.close 320, connection.close-ok"
