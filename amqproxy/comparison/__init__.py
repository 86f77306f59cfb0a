"""Comparison: two captures, or a recording and what happened now, command by command.

    capture → `Decoded` → `Traced` commands → a store on disk  (`command_tracer`, `command_store`)
    two stores → connections that correspond → channels → tracks → differences

- `traced_command`: `TracedCommand`, a command with what became of it; the tracks in which they have an order.
- `command_tracer`: makes them of one connection, from the events of its trace.
- `request_places`: where the requests of one connection are among what was sent.
- `normalising`: commands without tags, and without names that were made up (`made_up_names`).
- `dialect`: what a protocol has to add; `amqp091` and `amqp010` do, and `dialects` lists them.
- `command_store`: the commands of a whole capture, in a temporary file.
- `latencies`: how long things took.
- `connection_pairs`: which connections correspond, and why.
- `alignment`: two sequences put beside each other, in windows.
- `comparison`: `compared`, which does all of this, and what it reports.
- `difference`: `Difference` and `Change`; what differs between two values, and between two bodies.

All is bounded by named limits, whatever the size of the captures. No socket, no clock. Imports: `amqproxy.capture` and
what is below it.
"""
