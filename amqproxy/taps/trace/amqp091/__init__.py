"""The trace of one 0-9-1 connection.

    frames and times → `Trace` → events

- `connection_trace`: `Trace`, for one connection: its opening, blocking, closing; and its channels.
- `handshake`: the peers' properties and the limits they agree on.
- `channel_trace`: one channel, composed of the parts that follow.
- `channel_life`: opened, asked to stop or go on, closed.
- `channel_requests`: requests and replies.
- `publishes`: the numbers of publishes, confirms and returns; `returns`: the publish that a basic.return belongs to.
- `deliveries`: the consumer of each delivery, and its settlement by the client.
- `transactions`: publishes and settlements that take effect with tx.commit.
- `frame_order`: frames of a capture that were seen before the frames that they answer.
- `causes`: the method that a close is about.

Imports: `amqproxy.amqp091`, `amqproxy.taps.trace` and msgspec. No clock: the time comes with the frames.
"""
