"""Relaying of connections in their steady state by a compiled loop in separate threads, without the interpreter's lock.

    Session, in trio ──hand over──▶ `Pump`: epoll → receive → scan whole frames, count → send
                     ◀──give back──

trio accepts, negotiates, evaluates rules and closes. For most of a connection's life only forwarding of frames is left,
which costs trio a task switch and two system calls for each; a `Pump` (`pump`) does it in C. `Pumps` (`pumps`) holds as
many as `threads` in the config, each with its share of the connections. `amqproxy.proxy.session.ownership` is the
session's side. Without compilation, or outside Linux, there are no pumps: `pumps.are_available`.

A `Pump` is the owner's end; a `RelayLoop` (`relay_loop`) runs in its thread. A `FrameScanner` (`frame_scanner`) scans
the received bytes and writes frames into a `Journal` (`journal`). A `PumpedConnection` (`pumped_connection`) moves
between session and pump, and comes back for one of the `return_reasons`; `frame_counts`, `latency_counts` and
`stalled_directions` are what their names say. `system_calls` and `pump_message` contain only C.

**A protocol** is a folder with its `FrameScanner`, `PumpedConnection` and `IdleConnection`; a `PumpDialect`
(`pump_dialect`) names them, and `dialects` lists the protocols. The loop calls a scanner once for all bytes of one
read, and knows nothing of frames itself.

**The owner of a connection** is one value, `Ownership.owner`, which one function changes according to a table:

    relays ──offer──▶ offered ──hand over──▶ pump ──give back──▶ relays
       ▲────withdraw─────┘

A relay that has forwarded enough chunks, or whose connection is silent for 0.1 s, offers the connection and stops the
other relay, which waits for its peer; that one hands the connection over, or continues if data arrived before. While a
pump is the owner, no relay touches either socket. The pump gives the connection back between two frames, with the
received bytes that it has not used and the taken bytes that it has not sent: before a method that changes what the
peers have agreed; before invalid bytes, which the session's own reader then finds and refuses; at the end of a half; at
an error; when a peer takes nothing for 0.1 s; at a frame above 256 KiB; when the bytes that it holds for all
connections reach 64 MiB; and on request (`Pump.recall`). The session recalls it for rules, a tap, a pause, a drain, a
channel that an operator closes, and at its end. A recall waits for at most one turn of the pump; a pump never waits for
Python, so there is no deadlock. A connection that comes back soon is handed over less and less often.

**A session whose connection a pump has is parked**: its two tasks end, and its parts are freed. When the connection
comes back, they are rebuilt from a record of some hundred bytes, kept beside both sockets and the meter of its messages
(`amqproxy.proxy.session.parked_session`); the reader state of each channel is with the pump. The pump's owner finds
silent peers by the pump's counters once a second (`Pump.silent`), without visiting the sessions. A session is not
parked while a reply is awaited, a channel opens or closes, or another operation is in progress.

**TLS** on either leg (`tls_records`): the session does the handshake with Python's `ssl` on the socket itself, and then
the pump reads and writes through the same connection of OpenSSL, whose address it takes from Python's object. OpenSSL
may hold received bytes of which epoll knows nothing: such a direction is `is_unfinished`, and read again in the next
turn. Without an OpenSSL that can be called, TLS stays with trio.

**Connections that stay with trio**: sessions to whose client a rule can apply, or could since it is
open (a rule that names another user, vhost or address cannot); those where an operator has acted on a channel; those
that a tap observes (`--print`, recorder, subscribers, dashboard, OpenTelemetry); a handshake, a drain, a pause;
protocols that are not parsed; and all sessions with the integrated broker as upstream, which shares the event loop
anyway.

**A missing pump** costs only its performance: if the system has no thread, descriptor or memory for one, or if its
thread ends, the log says so, its connections are taken back, and sessions stay with the event loop.

**No lock on the data path.** Connections move through pipes: whoever has read one from a pipe owns it. A pump writes it
only when no event of its turn that could concern it is left. Its counters are read while it counts.

**Counters.** Frames and bytes by kind, and the seconds in the proxy: arrays of each pump, added up at a scrape. Bytes
received, for heartbeats and for the list of connections: `Pump.silent`, called by the watchdog, and
`PumpedConnection.show`.
The message metrics (open messages, publish → confirm, delivery → acknowledgement) come from the protocol's meter over
the same bytes: it keeps tags and times of every open message and knows rare methods; it stays in Python's thread, one
for both owners, so that none of its state has to be handed over. A pump writes the forwarded frames into its journal, a
ring of 4 MiB, with the time of each read: only the number of similar consecutive messages, and likewise of
acknowledgements with consecutive tags; other bodies only as present. The journal is read four times a second, when it
is half full, and before a connection comes back. So latencies follow the pump's clock, however late they are counted.
When the journal is full because Python has been held up for long (some 40,000 reads, or messages each of which differs
from the one before), the pump waits: nothing is lost. The trace, findings, records and spans need frames as objects:
those sessions stay with trio.

**Without pumps**, and in a plain run, there is an `IdlePump` (`idle_pump`): the event loop turns it, and it holds only
idle connections. A session that has received no byte for 0.1 s is parked with it; it forwards heartbeats, and gives an
`IdleConnection` (`idle_connection`) back at anything else. It needs no journal.

**Memory**: a pump has 4 MiB of journal and 256 KiB of receive buffer; a connection takes 500 bytes, 32 for each
channel, and temporarily the bytes held of an incomplete frame or for a full socket. With the rest of its session that
is some 2.5 KiB.

**Tests** use a `Pumps` without threads, whose pump the event loop turns and which gives back every few frames.

Imports: the metrics of `amqproxy.taps`, and in the folder of a protocol its frames and its meter.
"""
