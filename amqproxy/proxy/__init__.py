"""The proxy's trio shell: sockets, time, and nothing else that the core could decide.

`listener` accepts clients, `upstream` reaches the broker. A `Session` (`session`) joins the two: it
holds a `Leg` (`leg`) for each, which is a `Transport` of `amqproxy.sockets` and the `Connection` that
the leg's two peers have made so far. One task a direction receives, feeds, decides and sends; reading
waits for the write, and so a slow reader slows its own writer only. A `Drain` (`drain`) says what
still passes while a session is being ended, an `Account` (`account`) what is told of it; hanging up on
the silent (`watchdog`) is beside the data path. What rules do to octets on their way is done by an
`Impaired` (`impaired`), which then stands in the place of a leg's transport.
Imports: `amqproxy.amqp091`, `amqproxy.taps`, `amqproxy.sockets`, trio, structlog.
"""
