"""Links from deliveries to their publishes, across captures and hosts: messages, deliveries → links, clocks.

    contents    the publishes and deliveries of the tables, by their content
    pairs       which publish each delivery came from
    clocks      how far the clocks of hosts differ, from the pairs
    linking     the whole step: `link(messages, deliveries) → Linked`

Links are made of the tables, not of the events of a batch: each batch evaluates again all that equals what it brought.
So a publish may come in a later batch than its delivery, and the order of batches does not matter. All of it is SQL
without a UDF, for Spark and DuckDB; only the clocks, a row for each host and hour, are computed in Python.
"""

from amqproxy.pipeline.links.linking import Linked, link

__all__ = ["Linked", "link"]
