"""Servers of another protocol."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.errors import FrameError
from amqproxy.amqp091.protocol_header import foreign_answer
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from tests.taps.findings.inspected import Inspected


@pytest.mark.parametrize("data", [b"HTTP/1.1 400 Bad Request\r\n", b"220 mail\r\n"])
@pytest.mark.parametrize("is_live", [False, True])
def test_the_protocol_is_named(data: bytes, is_live: bool) -> None:
    inspected = Inspected()
    error = FrameError(foreign_answer(data), offset=0)
    inspected._note(inspected.trace.gap(SERVER, 1, str(error) if is_live else error.reply_text))
    assert [(each.kind, each.text) for each in inspected.findings] == [("foreign-server", foreign_answer(data))]


@pytest.mark.parametrize(("sender", "reason"), [(CLIENT, "the server speaks HTTP"), (SERVER, "bytes are missing")])
def test_other_losses_are_no_finding(sender: Peer, reason: str) -> None:
    inspected = Inspected()
    inspected._note(inspected.trace.gap(sender, 1, reason))
    assert inspected.kinds == []
