"""Outcomes of events: trace events → messages, deliveries, requests, connections, channels, errors, fields.

    settle        the whole step: `settle(events, carried) → Settled`
    messages      publishes, with their outcomes
    deliveries    deliveries, with their outcomes
    requests      synchronous methods
    errors        errors and unreadable parts
    fields        fields of message bodies
    lives         connections and channels, from start to end; and the owners of rows
    settlements   settled ranges → a row for each number
    batch         the events of a batch as SQL tables, and shared results
    carry         open rows, passed to the next batch

Everything is a query over DataFrames, without a UDF: nothing leaves the JVM. Events in two batches, the second with the
first's carried rows, give the same rows as in one, wherever they are divided. Joins are made on narrow rows; wide
columns are attached once.
"""

from amqproxy.pipeline.settle.carry import OPEN
from amqproxy.pipeline.settle.settle import Settled, settle

__all__ = ["OPEN", "Settled", "settle"]
