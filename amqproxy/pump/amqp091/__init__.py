"""AMQP 0-9-1 in pumps.

A connection is given back before all methods but basic.publish, deliver, return, ack, nack and reject. Runs of messages
(`taps.metering.amqp091.message_run`) and of acknowledgements (`taps.metering.amqp091.acknowledgement_run`) are journaled as one frame.
"""
