"""AMQP 0-10: the ground floor, which knows of no socket and no clock.

`command_ids` is a set of the commands of a session.
"""
