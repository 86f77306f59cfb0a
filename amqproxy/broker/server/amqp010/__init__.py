"""The AMQP 0-10 side of what the server shows and counts: a `reading` of both peers, and a `connection_meter`."""
