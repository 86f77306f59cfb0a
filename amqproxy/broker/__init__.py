"""A whole AMQP 0-9-1 broker in one process, as RabbitMQ is one on the wire.

The model is pure: a `Broker` (`broker`) holds `VirtualHost`s (`vhost`), and these hold exchanges (`exchange`, one type
a file in `exchanges`), `Queue`s (`queue`) with their `Consumer`s (`consumer`), and route `Message`s (`message`). A
`Link` (`link`) is one client's connection and `ServerChannel` (`server_channel`) one of its channels: octets go in,
and octets to send come out. None of them opens a socket or reads a clock; times are passed in, in seconds.

`server` is the trio shell: it listens, feeds the links, and wakes the model when something is due.
"""
