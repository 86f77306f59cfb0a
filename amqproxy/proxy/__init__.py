"""The proxy: the trio shell, and the interceptor that carries out the verdicts of rules.

Subpackages and modules, from the top:

- `listener` accepts clients, `upstreams` chooses the broker that takes each, `upstream` connects to it; `client_moves`
  lets clients reconnect elsewhere; an `admission_queue`, for the tasks of `admissions`, limits the rate of new ones;
  `watchdog` disconnects peers that are silent or do not read; `sessions` iterates
  over very many sessions, some in each turn.
- `session`: a client connection joined with a broker connection: a `Session`, from the protocol header to the last
  close, with or without rules. It is independent of the protocol.
- Each protocol has a folder, one of the `dialects` of a session: its legs, directions, drains and traffic, and their
  passages without rules and, in `interception`, with them.
- `interception`: the engine of a passage with rules, sans-IO, and independent of the protocol, too.
- `mirroring`: copies of publishes, sent to other exchanges and upstreams.
- Used by all of them: `leg`, from which the dialects derive theirs, with its `Transport` and its `Connection` state;
  `broker_login` opens connections of the proxy itself; `memory_budget` bounds buffered bytes; `timers`;
  `faulty_transport` applies stream faults; a `record_source` fills a queue of records for a reader, through a
  `filtered_tap` if only some are wanted.

Imports: the protocols, `amqproxy.rules`, `amqproxy.taps`, `amqproxy.sockets`,
`amqproxy.configuration.config`, trio.
"""
