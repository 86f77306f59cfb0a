"""Filters of each protocol."""

from __future__ import annotations

import pytest

from amqproxy.amqp010.commands import QueueDelete
from amqproxy.amqp010.controls import SessionCommandPoint, SessionFlush
from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp010.frame import encode_method as encode_amqp010
from amqproxy.amqp091.frame import Frame, encode_method
from amqproxy.amqp091.methods import ConnectionClose, QueuePurge
from amqproxy.peer import CLIENT
from amqproxy.rules.context import Client
from amqproxy.rules.dialects import DIALECTS
from amqproxy.rules.matching.filters import Filter

NOTHING = Filter("method == 'tx.select'")
WHO = Client.named(1, "a-b")


@pytest.mark.parametrize("protocol", sorted(DIALECTS))
def test_an_empty_chunk_passes_as_such(protocol: str) -> None:
    frames, ids = DIALECTS[protocol].frames(NOTHING, WHO).passing(CLIENT, [], [], 0.0)
    assert (list(frames), list(ids)) == ([], [])


def test_frames_of_0_9_1_that_are_kept_pass_beside_the_filter() -> None:
    sent = [Frame(encode_method(0, ConnectionClose())), Frame(encode_method(1, QueuePurge(queue="q")))]
    filter = DIALECTS["0-9-1"].frames(NOTHING, WHO)
    assert filter.passing(CLIENT, sent, (), 0.0) == ([], ())
    assert filter.passing(CLIENT, sent, (), 0.0, keeps=lambda frame: frame.channel == 0) == (sent[:1], ())


def test_controls_pass_beside_the_filter_where_frames_are_kept_except_those_that_number_commands() -> None:
    point = SessionCommandPoint(command_id=7, command_offset=0)
    sent = [Amqp010Frame(encode_amqp010(1, each)) for each in (point, SessionFlush(), QueueDelete(queue="q"))]
    filter = DIALECTS["0-10"].frames(NOTHING, WHO)
    assert filter.passing(CLIENT, sent, (None, None, 7), 0.0) == ([], [])
    assert filter.passing(CLIENT, sent, (None, None, 7), 0.0, keeps=lambda frame: False) == (sent[1:2], [None])
