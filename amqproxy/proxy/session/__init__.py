"""One client's connection and the one to the broker that serves it, joined frame by frame.

- `session` is the composition: a `Session` holds a leg for each side. `session_state` has the table of its states.
- `opening` receives the protocol header. A protocol that is not decoded is relayed unread by a `tunnel`.
- AMQP 0-10 has the same in its own form: `amqp010_traffic`, with an `amqp010_relay` for each direction, and between
  them an `AMQP010Passage` (`amqp010_passage`): an `AMQP010PassThrough` (`amqp010_pass_through`), or with rules an
  `AMQP010Interceptor`, whose wishes `amqp010_rules` carries out. An `amqp010_session_meter` counts; `amqp010_drain`
  is its drain.
- Between the legs there is a `Passage` (`passage`), sans-IO: a `PassThrough` (`pass_through`), or with rules an
  `Interceptor`. A `Relay` (`relay`) for each direction receives, feeds, lets the frames pass, and sends; reading
  waits for the write, so a slow reader slows only its own writer. A `PacedHandshake` (`handshake`) accepts a client
  that sends ahead of the broker's replies. `ownership` is who receives and sends: the relays, or one of the pumps of
  `amqproxy.pump`.
- `session_parts` are what a session consists of while it is served, `session_tasks` its tasks. While a pump has the
  connection there is a `parked_session` in their place, with two `packed_leg`s, or
  `amqp010_packed_leg`s; `session_meter` goes on counting. All sessions share the `session_services`.
- `traffic` carries out what the passage wants besides: log lines and copies (`session_effects`, `rule_log`), delayed
  commands when their time comes (`release_timer`), other rules, and a `Drain` (`drain`), which decides what still
  passes before the client is asked to close.
- `closing` keeps how the session ends, and sends each peer its connection.close; a `farewell` is what a drain asks the
  client with. `session_report` reports to the metrics, the log and the taps.
"""
