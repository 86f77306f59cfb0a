"""PROXY headers, to the byte as the specification has them."""

import pytest

from amqproxy.sockets.proxy_protocol import header

SIGNATURE = "0d0a0d0a000d0a515549540a"


@pytest.mark.parametrize(
    ("source", "destination", "rest"),
    [
        (("10.1.2.3", 40000), ("192.168.0.1", 5672), "21 11 000c 0a010203 c0a80001 9c40 1628"),
        (("::ffff:10.1.2.3", 1), ("::ffff:10.0.0.1", 2), "21 11 000c 0a010203 0a000001 0001 0002"),
        (("::1", 65535), ("fe80::1%eth0", 80), f"21 21 0024 {'00' * 15}01 fe80{'00' * 13}01 ffff 0050"),
        (("10.1.2.3", 1), ("::1", 2), f"21 21 0024 {'00' * 10}ffff0a010203 {'00' * 15}01 0001 0002"),
    ],
)
def test_a_header(source: tuple[str, int], destination: tuple[str, int], rest: str) -> None:
    assert header(source, destination) == bytes.fromhex(SIGNATURE + rest)
