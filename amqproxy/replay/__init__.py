"""Replay of recorded connections.

    capture → `Decoded` → `Step`s ─▶ `ReplayCopy` ─▶ `Player` ⇄ bytes ⇄ broker
                                          └──────────▶ `ReplayResult`

- `steps`: the traffic of a connection, one value for each command, greeting, fault and end; `step_reader` makes them.
- `dialogue`: the steps of a capture, in its order; a `ConnectionSteps` has those of one connection.
- `step_selection`: the steps that a filter leaves.
- `player`: one connection that is played: what to send next, what to wait for, and how live answers compare;
  `broker_link` is its live side, `awaited` the waiting for recorded answers.
- `dialects`: the protocols, each a folder.
- `names`: which live name stands for which recorded one, and commands with these names in all places.
- `deliveries`: which live delivery stands for which recorded one; `content_key`: the identity of messages.
- `answer_changes`: in which fields a live command differs from the recorded one.
- `replay_copy`: all connections of one copy of a capture: when each step is due, and what it waits for.
- `replayer`: the sockets and the clock around it; `target` is the broker, `broker_dial` connects to it, `rules_between`
  is a proxy in front of it.
- `result`, `result_text`: the findings of a replay.
- `shrinking`: the smallest part of a capture (`capture_part`) of which an expression is still true (`outcome`) when it
  is played, by `delta_debugging`; `traffic_log` keeps the
  live traffic, `traffic_capture` writes it.
- `mocking`: the other side: recorded servers, played to live clients.

All but `replayer` and `rules_between` is sans-IO. Imports: `amqproxy.comparison`, `amqproxy.capture`, `amqproxy.proxy`
and all below them.
"""
