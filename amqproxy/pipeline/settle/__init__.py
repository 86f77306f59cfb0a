"""What became of everything: the events of the trace → messages, deliveries, requests, connections, channels, errors.

    settle        all of it: `settle(events, carried) → Settled`
    messages      publishes, with what became of them
    deliveries    deliveries, with what became of them, and the publishes that they came from
    journeys      which publish a delivery came from, on whichever connections
    requests      synchronous methods
    errors        what went wrong, or could not be read
    lives         connections and channels, from their beginning to their end; and so who rows are of
    watermark     until when all that passed is known, where there are several chains
    settlements   ranges of what was settled → a row for each number
    batch         the events of a batch as tables that SQL reads, and what is computed once
    carry         what is not settled yet, as rows that the next batch is given

Everything is a query over DataFrames, without a UDF: nothing leaves the JVM. Events in two batches, the second with
what the first carried, give the same rows as in one, wherever they are divided. Joins are made on narrow rows; wide
columns are attached once.
"""

from amqproxy.pipeline.settle.carry import OPEN
from amqproxy.pipeline.settle.settle import Settled, settle

__all__ = ["OPEN", "Settled", "settle"]
