"""The proxy: the trio shell, and the interceptor that carries out the verdicts of rules.

Subpackages and modules, from the top:

- `listener` accepts clients, `upstream` connects to the broker; `watchdog` disconnects peers that are silent or do
  not read; `sessions` looks at very many sessions, some in each turn.
- `session`: one client's connection and the one to the broker, joined: a `Session`, from the protocol header to the
  last close, with or without rules.
- `interception`: what stands between the legs of a session with rules: an `Interceptor`, sans-IO;
  `amqp010_interception`: the same for AMQP 0-10.
- `mirroring`: copies of publishes, sent to other exchanges and upstreams.
- Used by all of them: a `leg` for each side, with its `Transport` and the `Connection` state there, of AMQP 0-10 an
  `amqp010_leg`, and either a `watched_leg`; `stateful` lists the methods that change a connection; `memory_budget`
  bounds what waits; `timers`; `faulty_transport` applies stream faults; a `record_source` fills a queue of records for
  a reader, through a `filtered_tap` where only some are wanted.

Imports: `amqproxy.amqp091`, `amqproxy.rules`, `amqproxy.taps`, `amqproxy.sockets`, `amqproxy.config`, trio.
"""
