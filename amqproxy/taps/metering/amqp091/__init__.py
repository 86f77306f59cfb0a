"""Meters of 0-9-1 connections.

A `MessageMeter` walks over the frames that the client sends and receives, and decodes only the methods that affect
messages. Of its `ChannelMeters`, each `ChannelMeter` has the `OpenMessages` of both directions: a bit for each open
tag, and the time of each read that had some.

It takes successive messages that are alike as a `MessageRun`, and acknowledgements of successive tags as an
`AcknowledgementRun`. A pump keeps only these of the traffic.

Imports: `amqproxy.amqp091`, `amqproxy.taps.metering`, and the requests of `amqproxy.taps.trace`.
"""
