"""The resources of the management API, one file each: handlers of paths, which shape the broker's entries as RabbitMQ.

A handler takes a `Call`, and returns a JSON value or the `Rows` of a list.
"""
