"""Meters of 0-9-1 connections.

A `MessageMeter` walks over the frames that the client sends and is sent, and looks into those methods alone that say
what becomes of messages. Of its `ChannelMeters`, each `ChannelMeter` has the `OpenMessages` of both directions: the
tags that are open, a bit each, and the time of each read that had some.

Messages that are alike and follow one another it takes as a `MessageRun`, acknowledgements whose tags follow one
another as an `AcknowledgementRun`. A pump keeps but those of what passes.

Imports: `amqproxy.amqp091`, `amqproxy.taps.metering`, and the requests of `amqproxy.taps.trace`.
"""
