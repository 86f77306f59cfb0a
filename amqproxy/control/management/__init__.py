"""The integrated broker as its management API sees it, over the control socket.

A `BrokerManagement` (`broker_management`) answers the requests `broker`, `broker-login`, `broker-objects` and
`broker-change`, whose changes are in `amqproxy.control.changes`. `objects` makes the entries of one kind, from one
object after another (`served_entries` those of clients), so that the service sends them in pieces while clients of the
broker have their turns. Entries have RabbitMQ's names for what the broker knows; `amqproxy.management` adds what
RabbitMQ derives, and its forms by version.
"""
