"""Topology that clients have declared, bound and consumed, observed from requests and replies alone, without a tap.

- `client_requests`: the requests of one client, and the prefetch and consumers of its channels.
- the folder of a protocol that numbers commands: requests that are answered by their completion.
- `observed_topology`: the exchanges, queues and bindings that all clients have made and deleted, within bounds.
- `partial_budget`: the budget of one client, within that of all.
- `observed_objects`: these objects, as values; they are the JSON contract of the control socket's `topology`.

It is the client's view: its requests and their answers.

Imports: the protocols, `amqproxy.conversion`, `amqproxy.taps.trace`, `amqproxy.taps.record`,
msgspec.
"""
