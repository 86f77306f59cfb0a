"""Settling of a batch: all tables made of its events and of the rows carried from the previous batch."""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec
from pyspark.sql import DataFrame

from amqproxy.pipeline.settle.batch import Batch
from amqproxy.pipeline.settle.deliveries import Deliveries
from amqproxy.pipeline.settle.errors import errors
from amqproxy.pipeline.settle.fields import fields
from amqproxy.pipeline.settle.lives import Lives
from amqproxy.pipeline.settle.messages import Publishes
from amqproxy.pipeline.settle.requests import requests


class Settled(msgspec.Struct, frozen=True):
    """Tables made of events, as declared in `schema`, and `open`: the rows for the next batch.

    Their shared inputs are kept until `release` is called, after all have been written.
    """

    messages: DataFrame
    deliveries: DataFrame
    requests: DataFrame
    connections: DataFrame
    channels: DataFrame
    errors: DataFrame
    fields: DataFrame
    open_connections: DataFrame
    """Connections that have not ended, as in `connections`, with `is_new`: the next batch replaces these rows."""
    open_channels: DataFrame
    """Channels that have not ended, as in `channels`: the next batch replaces these rows."""
    open: DataFrame
    is_small: bool
    """Whether each of them is in one partition."""
    release: Callable[[], None]


def settle(
    events: DataFrame,
    carried: DataFrame | None = None,
    *,
    age_ns: int | None = None,
    over: Collection[str] = (),
) -> Settled:
    """Determine the outcomes of `events` (`schema.EVENTS`) and of `carried`, the `open` rows of the batch before.

    Each message, request, connection … is a row of the one batch in which its outcome becomes known. Those that have
    been open for `age_ns` at the end of their chain are given up with the outcome `unknown`. With 0, nothing follows,
    and `open` is empty. Nothing follows in the chains `over`, unless this batch has events of them. Deliveries have no
    links: see `links`.
    """
    batch = Batch(events, carried, is_last=age_ns == 0)
    lives = Lives(batch, over)
    sizes = lives.sizes
    publishes = Publishes(batch, lives.who, few=batch.is_few(max(sizes.lives, sizes.publishes)), age_ns=age_ns)
    deliveries = Deliveries(batch, lives.who, few=batch.is_few(max(sizes.lives, sizes.deliveries)), age_ns=age_ns)
    left = batch.nothing
    if not batch.is_last:
        for rows in (publishes.open(), deliveries.open(), *lives.open()):
            left = left.unionByName(rows, allowMissingColumns=True)
    if batch.is_small:
        left = left.coalesce(1)
    return Settled(
        messages=publishes.settled(),
        deliveries=deliveries.settled(),
        requests=requests(batch, lives.who),
        connections=lives.connections(),
        channels=lives.channels(),
        errors=errors(batch, lives.who),
        fields=fields(batch, lives.who),
        open_connections=lives.open_connections(),
        open_channels=lives.open_channels(),
        open=left,
        is_small=batch.is_small,
        release=batch.release,
    )
