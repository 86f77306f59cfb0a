"""Addresses and ports as text."""

import pytest

from amqproxy.capture.endpoints import Endpoint, reverse, source_of
from tests.capture.building import address


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (address("10.0.0.1"), "10.0.0.1:5672"),
        (bytes(4), "0.0.0.0:5672"),
        (address("::1"), "[::1]:5672"),
        (bytes(16), "[::]:5672"),
        (address("fd00::1:0:0:2"), "[fd00::1:0:0:2]:5672"),
        (bytes(10) + b"\xff\xff\x0a\0\0\1", "[::ffff:10.0.0.1]:5672"),
    ],
)
def test_text(data: bytes, text: str) -> None:
    assert str(Endpoint(data, 5672)) == text


def test_flows() -> None:
    for size in (4, 16):
        flow = b"a" * size + b"b" * size + b"\x9c\x40\x16\x28"
        assert reverse(flow) == b"b" * size + b"a" * size + b"\x16\x28\x9c\x40"
        assert reverse(reverse(flow)) == flow
        assert source_of(flow) == Endpoint(b"a" * size, 40000)
        assert source_of(reverse(flow)) == Endpoint(b"b" * size, 5672)
