"""What happened on all connections of a capture, in memory that is bounded for all of them together."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import pytest

from amqproxy.amqp091.methods import ConfirmSelect, ConfirmSelectOk
from amqproxy.capture import observed as observed_module
from amqproxy.capture.observed import observed
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.observer import ObserverSettings
from tests.export.dialogue import Dialogue


def test_open_messages_of_all_connections_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    dialogues = []
    for stream in range(20):
        dialogue = Dialogue(stream=stream).client(ConfirmSelect()).server(ConfirmSelectOk())
        for number in range(5):
            dialogue.publish("e", f"{stream}.{number}", b"x")
        dialogues.append(dialogue.end())
    decoded = [*chain(*(each[:-1] for each in dialogues)), *(each[-1] for each in dialogues)]
    for most, pending in ((observed_module.MAX_PENDING_BYTES, 0), (20 * 2000, 40)):
        monkeypatch.setattr(observed_module, "MAX_PENDING_BYTES", most)
        found = observed(decoded, ObserverSettings())
        publishes = [each for each in found if isinstance(each, MessageRecord) and each.type == "publish"]
        outcomes = Counter(each.outcome for each in publishes)
        assert len({each.routing_key for each in publishes}) == 100
        assert outcomes["pending"] >= pending
        assert (outcomes["pending"] == 0) is (pending == 0)
