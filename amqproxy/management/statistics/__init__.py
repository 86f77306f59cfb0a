"""Rates and sampled history of what the broker counts, kept in the API's own process.

    sampler         asks the broker every five seconds for the counts that changed
      history       the series of all objects, bounded in samples and in objects
        series      the numbers of one object over time; only changes are kept
    ranges          the ranges of a query: `msg_rates_age`, `msg_rates_incr` and the like
    figures         one request's view: RabbitMQ's keys for counts, with their rates

A restart of the process loses the history and not the counts, which are the broker's.
"""
