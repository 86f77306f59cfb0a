"""Moves of waiting messages from the queues of one broker to the same queues of another.

A message is published with `mandatory` and a confirm before its delivery is acknowledged, so that it is always on one
of the two brokers: when a party fails, at most the messages in the window are on both. Headers and properties are
forwarded byte for byte, and the routing key is kept.

`UnsettledMessages` (`unsettled_messages`) relates deliveries to publishes; `MessageForwarder` (`message_forwarder`)
turns the frames of deliveries into publishes and those of confirms into acknowledgements. Both are sans-IO.
`BrokerLink` (`broker_link`) is a connection with one channel. `move_queue` (`queue_move`) moves one queue over two
links, and `MoveProgram` (`move_program`) all queues of a `MoveJob` (`move_job`), again and again until all are empty.
`queue_depths` looks at queues without changing them; `move_login` has the login of both. `child` runs a job in a
process of its own: `python -m amqproxy.moving.child`.

Imports: `amqproxy.proxy.broker_login`, `amqproxy.proxy.upstream`, `amqproxy.sockets`, `amqproxy.amqp091`; trio in
`broker_link`, `queue_move`, `move_program`, `queue_depths` and `child`.
"""
