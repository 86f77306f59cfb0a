"""Meters of 0-10 connections.

An `Amqp010Meter` numbers the commands of both peers by itself, and takes transfers that are alike as an
`Amqp010MessageRun`. The `OpenTransfers` of a session are runs of command ids that came at one time, its `OpenRequests`
the commands that await replies; both are bounded for all sessions of a connection together.
The tests compare every count with that of a meter that decodes each frame.

Imports: `amqproxy.amqp010`, `amqproxy.taps.metering`, and `amqproxy.taps.trace`'s budget.
"""
