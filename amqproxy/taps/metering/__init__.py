"""Counts messages and measures how long they were open, for metrics: without an object per message.

    bytes of both directions → `MessageMeter`, one a connection → `MessageCounts`, one a process

A `MessageMeter` walks over the frames that the client sends and is sent, and looks into those methods alone that say
what becomes of messages. Of its `ChannelMeters`, each `ChannelMeter` has the `OpenMessages` of both directions: the
tags that are open, a bit each, and the time of each read that had some. The definitions are those of
`amqproxy.taps.trace`, with which the tests compare every count.

Messages that are alike and follow one another it takes as a `MessageRun`, acknowledgements whose tags follow one
another as an `AcknowledgementRun`. A pump keeps but those of what passes.

An `Amqp010Meter` does the same for AMQP 0-10, by an `Amqp010MessageRun`: it numbers the commands of both peers by
itself. The `OpenTransfers` of a session are runs of command ids that came at one time, its `OpenRequests` the commands
whose replies are waited for; what all sessions of a connection have of both is bounded for the connection. The tests
compare every count with that of a meter that decodes each frame.

All but the rare methods is C where it is compiled, and needs no interpreter.

Imports: `amqproxy.amqp091`, `amqproxy.amqp010`, and the requests of `amqproxy.taps.trace`.
"""
