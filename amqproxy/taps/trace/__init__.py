"""Trace of one connection: events, made from the frames of both directions, that link each command to its answer.

    frames and times → `amqp091` or `amqp010` → events

- `connection_trace` and `traced_channel`: the parts of a connection's trace that all protocols share.
- `amqp091` and `amqp010`: the trace of a connection of each protocol; both make the same events. `dialects` lists them.
- `channel_context`: state shared by the parts of one channel.
- `held_frames`: frames of a capture that were seen before the frames that they answer.
- `events`: the output of a trace, in the order in which it happened.
- `event_queue`: events until they are returned, and the listener that is shown them.
- `equivalents`: requests of either protocol as methods of 0-9-1.
- `handshake_facts`: the peers' properties and the limits they agree on.
- `requests`: requests that await their replies.
- `consumers`: the consumers of a channel, and the queue of each.
- `content`: a method with its header and body, from their frames.
- `open_tags`: ranges of publishes or deliveries that are not settled, with the time of each.
- `snapshot`: the state of a connection at one moment, for traces that join there.
- `activity`: the times of each peer's last frame.
- `budget`: limits on the memory of all channels of a connection together.

Readers of events need not know the protocol. Events of messages have `exchange`, `routing_key`, `mandatory`,
`redelivered`, `delivery_tag` and `consumer_tag` in `event.method`, and their properties have the names of 0-9-1: the
structs of 0-9-1 have these themselves, those of `taps.amqp010.transfers` provide them for 0-10. A request is the method
or command as sent, with its `name`, and its arguments by `amqproxy.taps.dialects`; `equivalent(request)` is the
0-9-1 method with the same meaning. `on_channel` is the channel, or `None` for the connection itself: a 0-10 session may
be on channel 0. Fields that only 0-10 can leave unknown are `None`, such as the delivery tag on a connection that was
joined in its middle.

The frames come from a live session, a capture or the integrated broker. Findings, `--messages` and all later consumers
read the events, and derive nothing from frames themselves, except `amqproxy.taps.metering`, which counts by the same
definitions without looking at each message, and is tested against this package.

A trace never guesses. A fact that it cannot know, because it joined in the middle, missed bytes or forgot state beyond
a limit, is `None` in an event, or has the outcome `unknown`; a channel that is opened later is known again. If frames
of one peer were missed, only facts that depend on them are unknown: after frames of the broker, the confirms and
replies that were due; after frames of the client, the number of its publishes, its requests and settlements. A trace
keeps no object per message, and its state is bounded for the connection: `open_tags.MAX_SPANS` ranges, and
`budget.MAX_MEMORY` bytes of all other state.

Times and order are those of the wire: a delivery is acked if its ack was seen before the channel was closed, even if
the broker no longer read it.

In a capture, only the order within each direction is certain: frames that may merely be early are held, and nothing is
claimed to be unknown or lost before that is certain. Frames of the client and the broker that crossed stay in the order
in which they were seen: frames on a channel that the broker was about to close, or acknowledgements during recovery.

Imports: `amqproxy.amqp091`, `amqproxy.amqp010` and msgspec. No clock: the time comes with the frames.
"""
