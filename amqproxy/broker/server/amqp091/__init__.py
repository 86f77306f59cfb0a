"""The AMQP 0-9-1 side of what the server shows and counts: a `connection_meter`."""
