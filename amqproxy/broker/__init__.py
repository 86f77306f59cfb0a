"""A whole AMQP 0-9-1 broker in one process, as RabbitMQ is one on the wire.

The model is pure: a `Broker` (`broker`) holds `VirtualHost`s (`vhost`), and these hold exchanges (`exchange`, one type
a file in `exchanges`), `Queue`s (`queue`) with their `Consumer`s (`consumer`), and route `Message`s (`message`). A
`Link` (`link`) is one client's connection and `ServerChannel` (`server_channel`) one of its channels: octets go in,
and octets to send come out. None of them opens a socket or reads a clock; times are passed in, in seconds.

What is durable, the model notes down in a `Journal` (`journal`): definitions through a `Remembrance` (`remembrance`),
as the values in `durable`, and messages through the `KeptBacklog`s (`kept_backlog`) that a queue's `Keeper` (`keeper`)
gives it. `store` writes what has gathered to SQLite in a thread of its own, and `keeping` binds the two in trio.

`server` is the trio shell: it listens, feeds the links, and wakes the model when something is due.
"""
