"""Comparison of two captures, or of a recording and a live replay, command by command.

    capture → `Decoded` → `Traced` commands → a store on disk  (`command_tracer`, `command_store`)
    two stores → connections that correspond → channels → tracks → differences

- `traced_command`: `TracedCommand`, a command with its outcome; the tracks in which commands are ordered.
- `command_tracer`: traced commands of one connection, from the events of its trace.
- `request_places`: positions of one connection's requests among the sent frames.
- `normalising`: commands without tags, and without generated names (`made_up_names`).
- `dialect`: the interface to a protocol, each a folder; `dialects` lists them.
- `command_store`: the commands of a whole capture, in a temporary file.
- `latencies`: distributions of latencies.
- `connection_pairs`: which connections correspond, and why.
- `alignment`: two sequences aligned with each other, in windows.
- `comparison`: `compared`, which runs the comparison, and its reports.
- `difference`: `Difference` and `Change`; the differences between two values, and between two bodies.

Named limits bound everything, whatever the size of the captures. No socket, no clock. Imports: `amqproxy.capture` and
all below it.
"""
