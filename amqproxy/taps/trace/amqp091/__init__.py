"""The trace of one 0-9-1 connection.

    frames and times → `Trace` → events

- `connection_trace`: `Trace`, for one connection: its opening, blocking, closing; and its channels.
- `handshake`: what the peers say of themselves and agree on.
- `channel_trace`: one channel, composed of the parts that follow.
- `channel_life`: opened, asked to stop or go on, closed.
- `channel_requests`: requests and replies.
- `publishes`: the numbers of publishes, confirms and returns; `returns`: which publish a basic.return gives back.
- `deliveries`: for which consumer each delivery is, and what the client settles.
- `transactions`: what takes effect with tx.commit.
- `channel_context`: what the parts of one channel share.
- `frame_order`: frames of a capture that were seen before what they answer.
- `causes`: which method a close is about.

Imports: `amqproxy.amqp091`, `amqproxy.taps.trace` and msgspec. No clock: the time comes with the frames.
"""
