"""Requests in snapshots that have declared exchanges, queues and bindings: 0-9-1 methods, whatever the protocol."""

from __future__ import annotations

from collections.abc import Iterator

from amqproxy.amqp091.methods import Method
from amqproxy.taps.trace.amqp091.channel_requests import decoded
from amqproxy.taps.trace.snapshot import ConnectionSnapshot, DeclarationSnapshot


def declarations(snapshot: ConnectionSnapshot) -> Iterator[tuple[DeclarationSnapshot, Method]]:
    """Yield the declarations of a snapshot with their requests, without those that another program has malformed."""
    for each in snapshot.declarations:
        try:
            yield each, decoded(0, each.method)
        except ValueError:
            continue
