"""Frames of a client that are larger than agreed."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import ConnectionClose
from tests.taps.findings.inspected import Inspected


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "FRAME_ERROR - type 2, all octets = <<>>: {frame_too_large,5000,4088}",
            "a content header frame of 5000 bytes, where 4088 is the most",
        ),
        (
            "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,5000,4088}",
            "a body frame of 5000 bytes, where 4088 is the most",
        ),
        (
            "FRAME_ERROR - a frame of 5000 bytes, where 4096 is the most",
            "a frame of 5000 bytes, where 4096 is the most",
        ),
    ],
)
def test_a_frame_above_frame_max(text: str, found: str) -> None:
    inspected = Inspected(1)
    inspected.server(ConnectionClose(501, text), channel=0)
    assert [(each.kind, each.text) for each in inspected.findings] == [("oversized-frame", found)]


@pytest.mark.parametrize(
    ("code", "text"), [(501, "FRAME_ERROR - type 9, all octets = <<>>: unknown_frame"), (502, "a frame of 5 bytes")]
)
def test_another_error(code: int, text: str) -> None:
    inspected = Inspected(1)
    inspected.server(ConnectionClose(code, text), channel=0)
    assert inspected.kinds == ["connection-error"]
