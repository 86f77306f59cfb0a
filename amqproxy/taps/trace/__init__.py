"""What happened on one connection: the frames of both directions, turned into events that link a command to its answer.

    frames and times → `Trace` → events

- `connection_trace`: `Trace`, for one connection: its opening, blocking, closing; and its channels.
- `handshake`: what the peers say of themselves and agree on.
- `channel_trace`: one channel, composed of the parts that follow.
- `channel_life`: opened, asked to stop or go on, closed.
- `channel_requests`: requests and replies.
- `publishes`: the numbers of publishes, confirms and returns.
- `deliveries`: for which consumer each delivery is, and what the client settles.
- `transactions`: what takes effect with tx.commit.
- `channel_context`: what the parts of one channel share.
- `requests`: requests that await their replies.
- `consumers`: the consumers of a channel, and the queues that they are of.
- `frame_order`: frames of a capture that were seen before what they answer.
- `causes`: which method a close is about.
- `content`: a method with its header and body, from their frames.
- `returns`: which publish a basic.return gives back.
- `open_tags`: ranges of publishes or deliveries that are not settled, with the time of each.
- `budget`: what the channels of a connection may hold, all together.
- `events`: what comes out, in the order in which it happened.

The frames come from a live session, a capture or the integrated broker. Findings, `--messages` and all that follow read
the events, and derive nothing from frames themselves; but for `amqproxy.taps.metering`, which counts by the same
definitions without looking at each message, and is tested against this.

A trace never guesses. What it cannot know, since it joined in the middle, missed bytes or forgot what went beyond a
limit, is None in an event, or has the outcome `unknown`; a channel that is opened later is known again. Nothing here
keeps one object for each message, and all that is kept is bounded for the connection: `open_tags.MAX_SPANS` ranges, and
`connection_trace.MAX_MEMORY` bytes of all else.

Times and order are those of the wire: a delivery is acked if its ack was seen before the channel was closed, even if
the broker did not read it any more.

Of a capture, only the order within each direction is certain: there what may only be early is held, and nothing is
claimed to be unknown or lost before it is certain. How the client and the broker came past each other stays as it was
seen: what the client sent to a channel that the broker was about to close, or acknowledged while it was recovering.

Imports: `amqproxy.amqp091` and msgspec. No clock: the time comes with the frames.
"""
