"""AMQP 0-10, with Qpid's errata: the lowest layer, without sockets and clocks.

What is on the wire: bytes come in and frames go out (`frame_reader`, which counts them in a `tally`). A `Frame`
(`frame`) is 12 bytes of header, and a payload: a piece of a segment. One to three segments (the control or command, its
header, its body) are an `Assembly` (`assembly`), which is what `amqp091.commands.Command` is there, with the same
surface: `channel`, `frames`, `method`, `header`, `properties`, `body`, `is_complete`, `encode`. An `AssemblyReader`
puts them together, for one direction of one channel, whose tracks may alternate.

`methods` has what a control and a command share, `controls` and `commands` the typed classes: `ConnectionTuneOk`,
`SessionAttach`, `MessageTransfer`, and so on, by `BY_NAME` ("message.transfer"), `BY_INDEX` and `METHODS` (by code).
`structs` has the structs, which are in headers (`properties`: `DeliveryProperties`, `MessageProperties`), in results
(`QueueQueryResult`) and in arguments (`Xid`), and `domains` the enumerations. All of these go to bytes, and come from
them, by `wire`, which has the types, and `Map`, `List` and `Array`, which keep the bytes they came from; `sequence` has
the arithmetic of sequence numbers, and sets of them. What breaks the rules is a `ProtocolError` (`errors`) with a code
and a scope: the connection, the session, or its attachment to a channel. `protocol_header` has the first bytes of both
peers; where a capture begins in the middle, `boundary` finds the first frame, and `command_numbering` has the ids of
commands that follow from the frames of one peer alone.

`Connection` (`connection`, with `channel`, `session`, and the tables in `transitions`) knows what both peers have
agreed and what each may send next. A session has for each peer a `command_stream` (numbers, completion, results;
`command_ids` are sets of those) and `transfers` (which messages are held); for the client its `subscription`s, with the
`credit` of each, and its `transaction`. `login` reads who logs in.

`sequence`, `wire`, `frame`, `tally`, `frame_reader`, `assembly` and `command_numbering` are compiled where the build
finds a C compiler, and run as they are where not. Imports: msgspec and the standard library.
"""
