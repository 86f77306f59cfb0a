"""Recorded connections, played again.

    capture → `Decoded` → `Step`s ─▶ `ReplayCopy` ─▶ `Player` ⇄ bytes ⇄ broker
                                          └──────────▶ `ReplayResult`

- `steps`: what passed on a connection, one value for each command, greeting, fault and end; `step_reader` makes them.
- `dialogue`: the steps of a capture, in its order; a `ConnectionSteps` has those of one connection.
- `step_selection`: the steps that a filter leaves.
- `player`: one connection that is played: what to send next, what to wait for, and how what comes compares;
  `broker_link` is its live side, `ahead` what comes next in the recording, `awaited` how long that is waited for.
- `dialect`: what a protocol has to add; `amqp091` and `amqp010` do, and `dialects` lists them.
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
