"""Declarations in snapshots."""

from __future__ import annotations

from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import ExchangeDeclare, QueueDeclare
from amqproxy.taps.trace.amqp091.declarations import declarations
from amqproxy.taps.trace.snapshot import ConnectionSnapshot, DeclarationSnapshot


def test_declarations_are_read_and_malformed_ones_are_left_out() -> None:
    methods = [ExchangeDeclare(exchange="e"), QueueDeclare(queue="q")]
    payloads = [encode_method(0, each)[7:-1] for each in methods]
    made = [DeclarationSnapshot(method=each, ts_ns=1) for each in (payloads[0], b"", payloads[1][:-1], payloads[1])]
    snapshot = ConnectionSnapshot(ts_ns=1, protocol="0-9-1", declarations=tuple(made))
    assert list(declarations(snapshot)) == [(made[0], methods[0]), (made[3], methods[1])]
