"""All that is made of the events of a batch, and of what the one before it has carried."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from pyspark.sql import DataFrame

from amqproxy.pipeline.schema import EVENTS
from amqproxy.pipeline.settle.carry import OPEN, WINDOW_NS
from amqproxy.pipeline.settle.deliveries import Deliveries
from amqproxy.pipeline.settle.errors import errors
from amqproxy.pipeline.settle.identity import horizons, identities
from amqproxy.pipeline.settle.journeys import Journeys
from amqproxy.pipeline.settle.kept import Kept
from amqproxy.pipeline.settle.lives import Lives
from amqproxy.pipeline.settle.messages import Publishes
from amqproxy.pipeline.settle.requests import requests


class Settled(msgspec.Struct, frozen=True):
    """The tables that are made of events, as `schema` declares them, and `open`: what the next batch is given.

    What several of them are made of is kept until `release` is called, when all have been written.
    """

    messages: DataFrame
    deliveries: DataFrame
    requests: DataFrame
    connections: DataFrame
    channels: DataFrame
    errors: DataFrame
    open: DataFrame
    release: Callable[[], None]


def settle(
    events: DataFrame,
    carried: DataFrame | None = None,
    *,
    age_ns: int | None = None,
    window_ns: int = WINDOW_NS,
) -> Settled:
    """What became of everything in `events` (`schema.EVENTS`) and in `carried`, the `open` of the batch before.

    Each message, request, connection … is a row in one batch only: the one in which it is known what became of it. What
    has been open for `age_ns` at the end of its chain is given up: its outcome is `unknown`. With 0 that is all there
    is, and `open` is empty: nothing follows. `window_ns` is how long after its publish a delivery is linked to it.
    """
    events = events.select(*(name for name in EVENTS.fieldNames() if name != "state"))
    if carried is None:
        carried = events.sparkSession.createDataFrame([], OPEN)
    is_last = age_ns == 0
    kept = Kept(is_shared=not is_last)
    horizon = kept.small(horizons(events, carried))
    who = kept.small(identities(events, carried, horizon))
    publishes = Publishes(events, carried, who, kept, age_ns=age_ns)
    journeys = Journeys(events, carried, who, horizon, kept, window_ns=window_ns)
    deliveries = Deliveries(events, carried, who, journeys, kept, age_ns=age_ns)
    lives = Lives(events, carried, who, horizon, kept, is_last=is_last)
    left = carried.where("false")
    if not is_last:
        left = publishes.open().unionAll(deliveries.open()).unionAll(lives.open()).unionAll(journeys.open())
    return Settled(
        messages=publishes.settled(),
        deliveries=deliveries.settled(),
        requests=requests(events, who),
        connections=lives.connections(),
        channels=lives.channels(),
        errors=errors(events, who),
        open=left,
        release=kept.release,
    )
