"""One client's connection and the one to the broker that serves it, joined frame by frame, in any protocol.

- `session` is the composition. `session_state` has the table of its states. `opening` receives the protocol header,
  which chooses a `Dialect` (`dialect`). A protocol that is not decoded is relayed unread by a `tunnel`.
- A `Traffic` (`traffic`) carries out what passes between both legs, whatever the protocol: what rules, taps and
  operators want. Each dialect derives its own. Between the legs there is a `Passage` (`passage`), sans-IO. A `Relay`
  (`relay`) for each direction receives, feeds its dialect's `Direction`, and sends; reading waits for the write, so a
  slow reader slows only its own writer. `ownership` is who receives and sends: the relays, or one of the pumps of
  `amqproxy.pump`.
- `session_parts` are what a session consists of while it is served, `session_tasks` its tasks. While a pump has the
  connection there is a `parked_session` in their place, with two `packed_leg`s. All sessions share the
  `session_services`.
- What rules want besides is carried out by `session_effects` and `rule_log`; a `release_timer` waits for delayed
  commands; a `tap_budget` bounds the time that taps take.
- `closing` keeps how the session ends, and sends each peer its connection.close; a `farewell` is what a drain asks the
  client with. `session_report` reports to the metrics, the log and the taps.
"""
