"""Which connections of two captures correspond."""

from __future__ import annotations

from amqproxy.comparison.command_store import StoredConnection
from amqproxy.comparison.connection_pairs import connection_pairs
from amqproxy.comparison.traced_command import Identity

ORDERS = Identity("orders", "guest", "/")


def stored(
    stream: int, port: int, identity: Identity | None = ORDERS, digest: int = 1, profile: dict[int, int] | None = None
) -> StoredConnection:
    name = f"10.0.0.1:{port}-10.0.0.2:5672"
    return StoredConnection(stream, name, stream, identity, digest, 1, profile or {1: 10})


def pairs(a: list[StoredConnection], b: list[StoredConnection]) -> list[tuple[int | None, int | None]]:
    return [
        (None if pair.a is None else pair.a.stream, None if pair.b is None else pair.b.stream)
        for pair in connection_pairs(a, b)
    ]


def test_one_connection_in_two_recordings_is_one_whatever_it_did_in_each() -> None:
    a = [stored(1, 5001, digest=1), stored(2, 5002, digest=2)]
    b = [stored(1, 5002, digest=1), stored(2, 5001, digest=7, profile={9: 1})]
    assert pairs(a, b) == [(1, 2), (2, 1)]
    assert connection_pairs(a, b)[0].why.startswith("addresses and ports, client-provided name orders")
    assert pairs(b, a) == [(1, 2), (2, 1)]


def test_the_ends_do_not_make_one_connection_of_two_clients() -> None:
    other = Identity("billing", "guest", "/")
    assert pairs([stored(1, 5001), stored(2, 5002, other)], [stored(1, 5002), stored(2, 5001, other)]) == [
        (1, 1),
        (2, 2),
    ]


def test_a_connection_without_its_handshake_is_found_by_its_ends() -> None:
    assert pairs([stored(1, 5001), stored(2, 5002)], [stored(1, 5002, None, 8)]) == [(1, None), (2, 1)]


def test_connections_of_other_ports_correspond_by_what_they_did_and_by_name() -> None:
    a = [stored(1, 5001, digest=1), stored(2, 5002, digest=2, profile={2: 5})]
    b = [stored(1, 6001, digest=3, profile={2: 4}), stored(2, 6002, digest=1)]
    assert pairs(a, b) == [(1, 2), (2, 1)]
