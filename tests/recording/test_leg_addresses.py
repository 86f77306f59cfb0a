"""The addresses of a leg."""

import pytest

from amqproxy.recording.leg_addresses import addresses_of


@pytest.mark.parametrize(
    ("name", "opener", "acceptor"),
    [
        ("10.0.0.1:40000-10.0.0.2:5672", "10.0.0.1:40000", "10.0.0.2:5672"),
        ("[fd00::1]:40000-[fd00::2]:5672", "[fd00::1]:40000", "[fd00::2]:5672"),
        ("[fe80::1%br-0]:40000-[fe80::2]:5672", "[fe80::1]:40000", "[fe80::2]:5672"),
        ("10.0.0.1:40000-[fd00::2]:5672", "10.0.0.1:40000", "[fd00::2]:5672"),
    ],
)
def test_addresses_are_those_of_the_connection(name: str, opener: str, acceptor: str) -> None:
    assert tuple(map(str, addresses_of(name, 7, "client"))) == (opener, acceptor)


@pytest.mark.parametrize(
    "name", ["", "unix:/run/a-b", "10.0.0.1:40000", "999.0.0.1:1-10.0.0.2:2", "1.2.3.4:99999-1.2.3.4:5"]
)
def test_others_are_made_up(name: str) -> None:
    assert tuple(map(str, addresses_of(name, 7, "client"))) == ("198.51.100.1:10007", "192.0.2.1:5672")
    assert tuple(map(str, addresses_of(name, 50_007, "upstream"))) == ("192.0.2.2:10007", "198.51.100.1:5672")


def test_made_up_connections_are_distinct() -> None:
    made = {addresses_of("", number, leg)[0] for number in range(0, 200_000, 7) for leg in ("client", "upstream")}
    assert len(made) == 2 * len(range(0, 200_000, 7))
