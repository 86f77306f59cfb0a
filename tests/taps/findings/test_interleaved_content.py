"""Frames of one channel that come between those of a message."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import ConnectionClose
from tests.taps.findings.inspected import Inspected

TEXT = "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead"


def test_a_method_between_a_publish_and_its_header() -> None:
    inspected = Inspected(1)
    inspected.server(ConnectionClose(505, TEXT, 60, 40), channel=0)
    assert [(each.kind, each.text) for each in inspected.findings] == [("interleaved-content", f"505 {TEXT}")]


@pytest.mark.parametrize(("code", "kinds"), [(501, ["connection-error"]), (200, [])])
def test_another_close(code: int, kinds: list[str]) -> None:
    inspected = Inspected(1)
    inspected.server(ConnectionClose(code, "x"), channel=0)
    assert inspected.kinds == kinds


def test_a_client_may_accuse_the_broker() -> None:
    inspected = Inspected(1)
    inspected.client(ConnectionClose(505, TEXT), channel=0)
    assert inspected.kinds == []
