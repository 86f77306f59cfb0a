"""Counts of messages and of the times for which they were open, for metrics, without an object per message.

    bytes of both directions → a meter of the protocol, one per connection → `MessageCounts`, one per process

The definitions are those of `amqproxy.taps.trace`, with which the tests compare every count. `Distribution` has the
times.

Where it is compiled, all but the rare methods is C, and needs no interpreter.

Imports: the protocols, each in its folder, and the requests of `amqproxy.taps.trace`.
"""
