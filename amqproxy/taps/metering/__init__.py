"""Counts messages and measures how long they were open, for metrics: without an object per message.

    bytes of both directions → a meter of the protocol, one a connection → `MessageCounts`, one a process

The definitions are those of `amqproxy.taps.trace`, with which the tests compare every count. `Distribution` has the
times.

All but the rare methods is C where it is compiled, and needs no interpreter.

Imports: the protocols, each in its folder, and the requests of `amqproxy.taps.trace`.
"""
