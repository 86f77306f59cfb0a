"""Limits that a later RabbitMQ does not take as they are."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.methods import BasicCredit, BasicCreditOk, BasicQos, BasicQosOk
from tests.taps.findings.rabbitmq4.used import advice, connected


@pytest.mark.parametrize(("frame_max", "is_found"), [(0, False), (4096, True), (8191, True), (8192, False)])
def test_frame_max(frame_max: int, is_found: bool) -> None:
    texts = [
        f'frame_max {frame_max} is asked for by "amqplib 0.10.3" (user "shop"): RabbitMQ 4.3 cuts the connection below '
        "8192"
    ]
    assert [text for _, text in advice(connected(frame_max=frame_max))] == (texts if is_found else [])


@pytest.mark.parametrize(
    ("version", "qos", "text"),
    [
        ("3.10.8", BasicQos(prefetch_count=5), ""),
        ("3.10.8", BasicQos(global_=True), ""),
        ("3.10.8", BasicQos(prefetch_count=5, global_=True), "RabbitMQ 4.3 takes it for each consumer of the channel"),
        ("4.3.6", BasicQos(prefetch_count=5, global_=True), "RabbitMQ 4.3.6 takes it for each consumer of the channel"),
        ("4.0.5", BasicQos(prefetch_count=5, global_=True), "RabbitMQ 4.0.5 takes it for the channel: refused with"),
    ],
)
def test_qos(version: str, qos: BasicQos, text: str) -> None:
    inspected = connected(version)
    inspected.client(qos)
    inspected.server(BasicQosOk())
    found = advice(inspected)
    assert [kind for kind, _ in found] == (["global-qos"] if text else [])
    assert all(text in each for _, each in found)


def test_credit() -> None:
    inspected = connected()
    inspected.client(BasicCredit("c", 1))
    inspected.server(BasicCreditOk(0))
    assert [kind for kind, _ in advice(inspected)] == ["basic-credit"]
