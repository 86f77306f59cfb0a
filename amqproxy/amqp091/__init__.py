"""AMQP 0-9-1 with RabbitMQ's extensions: the lowest layer, without sockets and clocks.

Bytes come in and frames go out (`frame_reader`, which counts them in a `tally`, and makes no frames of what a
`pass_cache` lets pass). From frames (`frame`) come methods (`methods`), properties (`properties`) and whole commands
(`commands`); all of them back to bytes by the same types, whose values `wire` reads and writes. `Connection`
(`connection`, with `channel`, and the tables in `transitions`) knows what both peers have agreed and
what each may send next. Whatever breaks the rules is a `ProtocolError` (`errors`), which carries the reply code, its
scope and the offset; `rabbitmq_errors` words it as RabbitMQ does. `protocol_header` recognises other protocols by their
first bytes.

`wire`, `frame`, `tally`, `pass_cache`, `frame_reader` and `commands` are compiled where the build finds a C compiler,
and run as they are where not. Imports: msgspec and the standard library.
"""
