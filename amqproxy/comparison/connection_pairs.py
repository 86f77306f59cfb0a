"""Correspondence of the connections of A and B, and its reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from amqproxy.comparison.command_store import StoredConnection
from amqproxy.taps.text import value_text

MAX_SCORES = 250_000
"""Pairs of connections in one group whose likeness is computed; larger groups are paired in their order."""

ALIKE = 0.2
"""Least likeness of connections that correspond only by user, address or likeness; 1 means the same commands."""


class ConnectionPair(NamedTuple):
    """Connections that correspond, or one without a counterpart, with None for the other."""

    a: StoredConnection | None
    b: StoredConnection | None
    why: str


def likeness(one: StoredConnection, other: StoredConnection) -> float:
    """Return the likeness of two connections, from 0 to 1, by their counts of each kind of command."""
    kinds = one.profile.keys() | other.profile.keys()
    most = sum(max(one.profile.get(kind, 0), other.profile.get(kind, 0)) for kind in kinds)
    least = sum(min(one.profile.get(kind, 0), other.profile.get(kind, 0)) for kind in kinds)
    return least / most if most else 1.0


def connection_pairs(a: Iterable[StoredConnection], b: Iterable[StoredConnection]) -> list[ConnectionPair]:
    """Pair all connections, in the order of A, with those that only B has at the end.

    The stages, in this order: connections of the same client with the same addresses and ports, as one that two
    recordings have parts of; with the same commands; with the same addresses and ports, as in two captures of the same
    traffic of which one lacks the handshake; of one client-provided name, user and virtual host; of one user and
    virtual host; those that are alike. With A and B exchanged, the pairs are the same.
    """
    ours, theirs = dict(enumerate(a)), dict(enumerate(b))
    partners: dict[int, tuple[int, str]] = {}
    stages: list[tuple[Callable[[StoredConnection], Any], float, str]] = [
        (lambda each: (each.connection, each.identity) if each.identity else None, 0.0, "ends"),
        (lambda each: (each.identity, each.digest), 0.0, ""),
        (lambda each: each.connection, ALIKE, "ends"),
        (lambda each: each.identity if each.identity and each.identity.name else None, 0.0, "client-provided name"),
        (lambda each: each.identity and (each.identity.user, each.identity.virtual_host), ALIKE, "user"),
        (lambda each: "all", ALIKE, "likeness"),
    ]
    rest, their_rest = list(ours), list(theirs)
    for key, least, why in stages:
        for i, j in _paired(key, least, ours, theirs, rest, their_rest):
            partners[i] = (j, _why(why, ours[i], theirs[j]))
        taken = {j for j, _ in partners.values()}
        rest = [i for i in rest if i not in partners]
        their_rest = [j for j in their_rest if j not in taken]
    pairs = []
    for i, connection in ours.items():
        if i in partners:
            j, why = partners[i]
            pairs.append(ConnectionPair(connection, theirs[j], why))
        else:
            pairs.append(ConnectionPair(connection, None, "no connection of B corresponds to it"))
    return pairs + [ConnectionPair(None, theirs[j], "no connection of A corresponds to it") for j in their_rest]


def _paired(
    key: Callable[[StoredConnection], Any],
    least: float,
    ours: dict[int, StoredConnection],
    theirs: dict[int, StoredConnection],
    rest: list[int],
    their_rest: list[int],
) -> list[tuple[int, int]]:
    groups: dict[Any, tuple[list[int], list[int]]] = {}
    for which, (connections, left) in enumerate(((ours, rest), (theirs, their_rest))):
        for number in left:
            found = key(connections[number])
            if found is not None:
                groups.setdefault(found, ([], []))[which].append(number)
    pairs: list[tuple[int, int]] = []
    for one, other in groups.values():
        if (
            len(one) * len(other) > MAX_SCORES
            or len({ours[i].digest for i in one} | {theirs[j].digest for j in other}) == 1
        ):
            pairs += zip(one, other, strict=False)
        else:
            pairs += _best(one, other, ours, theirs, least)
    return pairs


def _best(
    one: list[int],
    other: list[int],
    ours: dict[int, StoredConnection],
    theirs: dict[int, StoredConnection],
    least: float,
) -> list[tuple[int, int]]:
    """Pair the most alike first, and of equally alike ones the earliest, symmetrically in A and B."""
    scored = []
    for x, i in enumerate(one):
        for y, j in enumerate(other):
            score = likeness(ours[i], theirs[j])
            if score >= least:
                scored.append((-score, x + y, abs(x - y), i, j))
    pairs: list[tuple[int, int]] = []
    taken: set[int] = set()
    their_taken: set[int] = set()
    for _, _, _, i, j in sorted(scored):
        if i not in taken and j not in their_taken:
            taken.add(i)
            their_taken.add(j)
            pairs.append((i, j))
    return pairs


def _why(why: str, one: StoredConnection, other: StoredConnection) -> str:
    """Describe the reason for which two connections correspond."""
    identity = one.identity
    who = ""
    if identity is not None and identity == other.identity:
        who = (
            f"client-provided name {value_text(identity.name)}"
            if identity.name
            else f"user {value_text(identity.user)}"
        )
    if why == "ends":
        who = f"addresses and ports{f', {who}' if who else ''}"
    if not why:
        return f"same commands{f', {who}' if who else ''}"
    if why == "user" and identity is not None and not who:
        who = f"user {value_text(identity.user)}"
    return f"{who or 'what they did'}, {likeness(one, other):.0%} alike"
