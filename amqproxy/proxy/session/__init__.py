"""A client connection and the broker connection that serves it, joined frame by frame, in any protocol.

- `session` is the composition. `session_state` has the table of its states. `opening` receives the protocol header,
  which chooses the dialect. A protocol that is not decoded is relayed unread by a `tunnel`.
- A `Traffic` (`traffic`) carries out what rules, taps and operators request between both legs, whatever the protocol.
  Its base `tapped_traffic` shows taps what passes, and the state that they join in. Each dialect derives its own, with
  its `dialect_parts`. Between the legs there is a `Passage` (`passage`), sans-IO. A `Relay` (`relay`) for each
  direction receives, feeds its dialect's `Direction`, and sends; reading waits for the write, so a slow reader slows
  only its own writer. `ownership` decides who receives and sends: the relays, or one of the pumps of `amqproxy.pump`.
- `session_parts` are the parts of a session while it is served, `session_tasks` its tasks. While a pump has the
  connection, a `parked_session` replaces them, with two `packed_leg`s. All sessions share the `session_services`.
- Side effects of rules are carried out by `session_effects` and `rule_log`; a `release_timer` waits for delayed
  commands; a `tap_budget` bounds the time that taps take.
- `closing` keeps how the session ends, and sends each peer its connection.close; a `farewell` sends the client of a
  draining session its connection.close. `session_report` reports to the metrics, the log and the taps.
"""
