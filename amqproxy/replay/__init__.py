"""Recorded connections, played again.

    capture → `Decoded` → `Step`s ─▶ `ReplayCopy` ─▶ `Amqp091Player` ⇄ bytes ⇄ broker
                                          └──────────▶ `ReplayResult`

- `steps`: what passed on a connection, one value for each command, greeting, fault and end.
- `dialogue`: makes steps of what a capture decodes to, in its order; a `ConnectionSteps` has those of one connection.
- `step_selection`: the steps that a filter leaves.
- `amqp091`, `amqp010`: the player of a connection, which says what to send next and what to wait for, compares what the
  broker sends with the recording, and has the live connection.
- `broker_link`: what of a live connection does not depend on the protocol; `ahead` is what comes next in the recording,
  `awaited` how long that is waited for.
- `names`: which live name stands for which recorded one, and commands with these names in all places.
- `deliveries`: which live delivery stands for which recorded one; `content_key`: what makes messages the same message.
- `answer_changes`: in which fields a live command differs from the recorded one.
- `replay_copy`: all connections of a capture that is played once: when each step is due, and what it waits for.
- `replayer`: the sockets and the clock around it; `target` is the broker, `broker_dial` connects to it, `rules_between`
  is a proxy in front of it.
- `result`, `result_text`: what was found.
- `shrinking`: the smallest part of a capture (`capture_part`) of which an expression is still true (`outcome`) when it
  is played, by `delta_debugging`; `opened_vhosts` is what a new broker needs for it, `traffic_log` has what passed,
  `traffic_capture` writes it.
- `mocking`: the other side: recorded servers, played to live clients.

All but `replayer` and `rules_between` is sans-IO. Imports: `amqproxy.comparison`, `amqproxy.capture`, `amqproxy.proxy`
and what is below them.
"""
