"""What clients have declared, bound and consumed, as far as it passed: without a tap, from requests and replies alone.

- `client_requests`: the requests of one client, and what is set on its channels: prefetch, and consumers.
- `asked_command`: a request that is answered by its completion.
- `observed_topology`: the exchanges, queues and bindings that all of them have made and deleted, within bounds.
- `partial_budget`: the bound of one client, within that of all.
- `observed_objects`: these, as values; they are the JSON contract of the control socket's `topology`.

It is the client's view: what it asked for, and was answered.

Imports: the protocols, `amqproxy.conversion`, `amqproxy.taps.trace`, `amqproxy.taps.record`,
msgspec.
"""
