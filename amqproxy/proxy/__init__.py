"""The proxy: the trio shell, and the interceptor that carries out the verdicts of rules.

`listener` accepts clients, `upstream` connects to the broker. A `Session` (`session`) joins the two: it holds a `Leg`
(`leg`) for each, which is a `Transport` of `amqproxy.sockets` and the `Connection` state of that leg. `opening`
receives the protocol header; `session_state` has the table of a session's states; a `Closing` (`closing`) keeps how the
session ends, and sends each peer its connection.close. The `watchdog` disconnects peers that are silent or do not read;
`sessions` looks at very many of them, some in each turn. A protocol other than AMQP 0-9-1 is relayed unread by a
`Tunnel` (`tunnel`).

Between the legs there is a `Passage` (`passage`), sans-IO: a `PassThrough` (`pass_through`), or with rules an
`Interceptor`. A `Relay` (`relay`) for each direction receives, feeds, lets the frames pass, and sends; reading waits
for the write, so a slow reader slows only its own writer. `Traffic` (`traffic`) carries out what the passage wants
besides: log lines and copies (`session_effects`), delayed commands when their time comes (`release_timer`), other
rules, and a `Drain` (`drain`), which decides what still passes before the client is asked to close. A `PacedHandshake`
(`handshake`) accepts a client that sends ahead of the broker's replies.

The `Interceptor` (`interceptor`) has no trio, sockets or clock. It goes through the frames of a chunk in order
(`chunk_frames`), keeps the state of both legs (`leg_states`), and asks the rules by its `evaluation`; `session_rules`
is the interface to them. Its `channel_table` has a `ChannelInterceptor` (`channel_interceptor`) for each channel whose
legs may differ, with a `ChannelDirection` (`channel_direction`) for each direction: queued commands and the state of
the content in progress. A channel interceptor yields `actions`, which the `ActionExecutor` (`action_executor`) of its
owner (`channel_owner`) carries out; its `channel_output` sends commands on, `answers` replies to the sender of what is
not sent on, and `channel_closing` closes it on both legs.
Delivery tags and confirms that differ between the legs are translated by its `channel_tags`, in `tag_translation`'s
tables; changed commands are encoded by `encoding`, what waits is kept in `delayed_commands` with its `timers`, what
each peer is to be sent is collected in `leg_output`, publishes that need not be evaluated again in
`repeated_publishes`, and what else is to be done is handed to the session as `effects`. `stateful` lists the methods
that change a connection. A `FaultyTransport` (`faulty_transport`) applies stream faults; it wraps a leg's transport.
Copies of publishes go to the `Mirrors` (`mirrors`), each through a `MirrorPublisher` (`mirror_publisher`).

Taps are notified by a `SessionReport` (`session_report`); a `FilteredTap` (`filtered_tap`) passes on only what a filter
matches.
Imports: `amqproxy.amqp091`, `amqproxy.rules`, `amqproxy.taps`, `amqproxy.sockets`, `amqproxy.config`, trio, structlog.
"""
