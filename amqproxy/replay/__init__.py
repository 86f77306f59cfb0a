"""Recorded connections, played again.

    capture → `Decoded` → `Step`s ─▶ `ReplayCopy` ─▶ `Player` ⇄ bytes ⇄ broker
                                          └──────────▶ `ReplayResult`

- `steps`: what passed on a connection, one value for each command, greeting, fault and end.
- `dialogue`: makes steps of what a capture decodes to, in its order; a `ConnectionSteps` has those of one connection.
- `step_selection`: the steps that a filter leaves.
- `player`: one connection that is played: what to send next, and what to wait for. `compared_connection` compares what
  the broker sends with the recording, `live_connection` is the live side alone, `broker_link` what of it does not
  depend on the protocol; `played_channel` is each of its channels, `login` its handshake, `ahead` what comes next in
  the recording, `awaited` how long that is waited for.
- `amqp010_steps`, `amqp010_player`, `amqp010_compared_connection`, `amqp010_live_connection`: the same of 0-10;
  `amqp010_session` is each of its sessions.
- `amqp010_names`: controls and commands of 0-10 with other names.
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
