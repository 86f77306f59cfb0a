"""Trace of one connection: events, made from the frames of both directions, that link each command to its answer.

    frames and times → `amqp091` or `amqp010` → events

- `amqp091` and `amqp010`: the trace of a connection of each protocol; both make the same events.
- `events`: what comes out, in the order in which it happened.
- `event_queue`: events until they are returned, and the listener that is shown them.
- `equivalents`: requests of either protocol as methods of 0-9-1.
- `handshake_facts`: the peers' properties and the limits they agree on.
- `requests`: requests that await their replies.
- `consumers`: the consumers of a channel, and the queue of each.
- `content`: a method with its header and body, from their frames.
- `open_tags`: ranges of publishes or deliveries that are not settled, with the time of each.
- `activity`: the times of each peer's last frame.
- `budget`: limits on the memory of all channels of a connection together.

Who reads events does not ask which protocol they are of. What carries a message has `exchange`, `routing_key`,
`mandatory`, `redelivered`, `delivery_tag` and `consumer_tag` in `event.method`, and its properties have the names of
0-9-1: so have the structs of 0-9-1 itself, and for 0-10 those of `taps.amqp010.transfers`. A request is what was
sent, with its `name`, and its arguments by `amqproxy.taps.method_arguments`; where it matters what it asks for,
`equivalent(request)` is the method of 0-9-1 that asks for the same. `on_channel` is the channel, or None for the
connection itself: a session of 0-10 may be on channel 0. What only 0-10 can leave open is None: the delivery tag of a
connection that was joined in its middle.

The frames come from a live session, a capture or the integrated broker. Findings, `--messages` and all that follow read
the events, and derive nothing from frames themselves; but for `amqproxy.taps.metering`, which counts by the same
definitions without looking at each message, and is tested against this.

A trace never guesses. What it cannot know, since it joined in the middle, missed bytes or forgot what went beyond a
limit, is None in an event, or has the outcome `unknown`; a channel that is opened later is known again. Nothing here
keeps one object for each message, and all that is kept is bounded for the connection: `open_tags.MAX_SPANS` ranges, and
`budget.MAX_MEMORY` bytes of all else.

Times and order are those of the wire: a delivery is acked if its ack was seen before the channel was closed, even if
the broker did not read it any more.

Of a capture, only the order within each direction is certain: there what may only be early is held, and nothing is
claimed to be unknown or lost before it is certain. How the client and the broker came past each other stays as it was
seen: what the client sent to a channel that the broker was about to close, or acknowledged while it was recovering.

Imports: `amqproxy.amqp091`, `amqproxy.amqp010` and msgspec. No clock: the time comes with the frames.
"""
