"""Relays connections in their steady state: a compiled loop in threads of its own, without the interpreter's lock.

    Session, in trio ──hand over──▶ `Pump`: epoll → receive → scan whole frames, count → send
                     ◀──give back──

trio accepts, negotiates, judges and closes. What is left for most of a connection's life is to pass frames on, and that
costs trio a task switch and two system calls for each; a `Pump` (`pump`) does it in C. `Pumps` (`pumps`) are as many as
`threads` in the config, each with its share of the connections. `amqproxy.proxy.session.ownership` has the other end.
There is none where amqproxy is not compiled, or not on Linux: `pumps.are_available`.

A `Pump` is its owner's end; a `RelayLoop` (`relay_loop`) runs in its thread. What that receives, a `FrameScanner`
(`frame_scanner`) goes over and writes into a `Journal` (`journal`). A `PumpedConnection` (`pumped_connection`) goes to
and fro, for one of the `return_reasons`; `frame_counts`, `latency_counts` and `stalled_directions` are what their names
say. `system_calls` and `pump_message` are C alone.

**A protocol** is a folder with its `FrameScanner`, `PumpedConnection` and `IdleConnection`; a `PumpDialect`
(`pump_dialect`) names them, and `dialects` lists the protocols. The loop calls a scanner once for all that it has
received at once, and knows nothing of frames itself.

**Who owns a connection** is one value, `Ownership.owner`, which one function changes, by a table:

    relays ──offer──▶ offered ──hand over──▶ pump ──give back──▶ relays
       ▲────withdraw─────┘

A relay that has passed on enough chunks, or on whose connection nothing comes for 0.1 s, offers the connection, and
stops the other relay, which waits for its peer; that one hands it over, or goes on if data came before. While a pump is
the owner, no relay touches either socket. It gives back, between two frames, with what it has received and not used,
and what it has taken and not sent: before a method that changes what the peers have agreed; before
anything that is wrong, which the session's own reader then finds and refuses; at the end of a half; at an error; when a
peer takes nothing for 0.1 s; at a frame above 256 KiB; when all that it holds for others comes to 64 MiB; and when it
is asked to (`Pump.recall`). The session recalls it for rules, a tap, a pause, a drain, a channel that an operator
closes, and at its end. A recall waits for the pump, for as long as the pump's turn takes; a pump never waits for
Python, so there is no circle. What comes back soon is handed over less and less often.

**A session whose connection a pump has is parked**: its two tasks end, and its parts are freed. What they are made from
when the connection comes back is a record of some hundred bytes, beside both sockets and the meter of its messages
(`amqproxy.proxy.session.parked_session`); what has been read of each channel is with the pump. The pump's owner tells
silent peers apart by its counters, once a second (`Pump.silent`): no session is looked at for that. The session stays
as it is while a reply is awaited or a channel opens or closes, and where something else is under way.

**What stays with trio**: TLS, on either leg; sessions for whose client a rule can hold, or could since it is open
(one that names another user, vhost or address cannot); those where an operator has acted on a channel; those that a
tap looks at (`--print`, recorder, subscribers, dashboard, OpenTelemetry); a handshake, a drain, a pause; protocols
that are not read; and all sessions where the integrated broker is the upstream, which shares the event loop anyway.

**A pump that is not there** costs nothing but its help: where the system has no thread, descriptor or memory for one,
or where its thread ends, the log says so, what it has is taken back, and sessions stay with the event loop.

**No lock on the data path.** Connections go to and fro through pipes: who has read one from a pipe owns it. A pump
writes it only when no event of its turn is left that could be about it. Its counters are read while it counts.

**What is counted.** Frames and bytes by kind, and the seconds in the proxy: arrays of each pump, added up at a scrape.
Bytes received, for heartbeats and for the list of connections: `Pump.silent`, which the watchdog asks for, and
`PumpedConnection.show`.
What metrics know of messages (open ones, publish → confirm, delivery → acknowledgement), the protocol's meter counts
over the same bytes: it keeps tags and times of every open message and knows rare methods; it stays in Python's thread,
one for both owners, so that nothing of it has to be handed over. A pump writes what has passed into its journal, a ring
of 4 MiB, with the time of each read: of messages that are alike and follow one another, how many there are, and
likewise of acknowledgements whose tags follow one another; of other bodies only that they were there. It is
read four times a second, when it is half full, and before a connection is back. So latencies are those of the pump's
clock, however late they are counted. When the journal is full, since Python has been held up for long (some 40,000
reads, or messages of which none is like the one before), the pump waits: nothing is lost. The trace, findings, records
and spans need frames as objects: those sessions stay with trio.

**Without pumps**, in a plain run too, there is an `IdlePump` (`idle_pump`): the event loop turns it, and it has only
what is idle. A session that no byte has come for in 0.1 s is parked with it; it passes on heartbeats, and gives back
an `IdleConnection` (`idle_connection`) at anything else. It has no journal and needs none.

**Memory**: a pump has 4 MiB of journal and 256 KiB to receive into; a connection 500 bytes, 32 for each channel, and
what is held of an incomplete frame or a full socket, while it is. With all else of its session that is some 2.5 KiB.

**Tests** give it a `Pumps` of no thread, whose pump the event loop turns, and which gives back every few frames.

Imports: the metrics of `amqproxy.taps`, and in the folder of a protocol its frames and its meter.
"""
