"""The proxy: the trio shell, and the interceptor that carries out the verdicts of rules.

Subpackages and modules, from the top:

- `listener` accepts clients, `upstream` connects to the broker; `watchdog` disconnects peers that are silent or do
  not read; `sessions` looks at very many sessions, some in each turn.
- `session`: one client's connection and the one to the broker, joined: a `Session`, from the protocol header to the
  last close, with or without rules. It knows no protocol.
- `amqp091` and `amqp010` are the `dialects` of a session: their legs, directions, pass-throughs, drains and traffic.
- `interception`: the 0-9-1 passage with rules: an `Interceptor`, sans-IO; `amqp010_interception`: the 0-10 one.
- `mirroring`: copies of publishes, sent to other exchanges and upstreams.
- Used by all of them: `leg`, from which the dialects derive theirs, with its `Transport` and the `Connection` state
  there; `stateful` lists the methods that change a connection; `memory_budget` bounds what waits; `timers`;
  `faulty_transport` applies stream faults; a `record_source` fills a queue of records for a reader, through a
  `filtered_tap` where only some are wanted.

Imports: `amqproxy.amqp091`, `amqproxy.amqp010`, `amqproxy.rules`, `amqproxy.taps`, `amqproxy.sockets`,
`amqproxy.configuration.config`, trio.
"""
