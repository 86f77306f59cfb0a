"""AMQP 0-9-1 in pumps.

A connection is given back before all methods but basic.publish, deliver, return, ack, nack and reject. Runs of messages
and of acknowledgements are journaled as one frame each: see `message_run` and `acknowledgement_run` in
`taps.metering.amqp091`.
"""
