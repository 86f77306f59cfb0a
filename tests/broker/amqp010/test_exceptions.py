"""Errors of the model with the codes of 0-10."""

from __future__ import annotations

import pytest

from amqproxy.amqp091 import errors
from amqproxy.broker.amqp010.exceptions import translated


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.AccessRefused, 403),
        (errors.NotFound, 404),
        (errors.ResourceLocked, 405),
        (errors.PreconditionFailed, 406),
        (errors.NotAllowed, 530),
        (errors.NotImplementedByServer, 540),
        (errors.InternalError, 541),
        (errors.UnexpectedFrame, 541),
    ],
)
def test_each_has_a_code(error: type[errors.ProtocolError], code: int) -> None:
    made = translated(error("text"))
    assert (int(made.code), made.text) == (code, "text")
