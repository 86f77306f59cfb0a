"""Mocking: the server's side of recorded connections, played to live clients.

    `ConnectionSteps` → a server script (what the server answered to what) → a mock connection ↔ a client's bytes

- `amqp091`, `amqp010`: the server script, which has each command of the recorded client with what the server answered,
  and how long after, and what consumers got; the mock connection, which is one live client: sans-IO, bytes and the time
  in, bytes out. `scripts` has the scripts of either protocol.
- `cast`: which recorded connection a live one plays.
- `waiting_commands`: which recorded command a live one is, by its `command_key`; which one comes nearest.
- `mock_settings`: how a recording is played, and limits.
- `live_contents`: what the live client has published in place of what the recorded one did.
- `later_tasks`: what a connection does at its time, and its deadline.
- `mock_notes`, `mock_report`: what a client did that differed.
- `mock_server`: the trio shell.

Imports: `amqproxy.replay.dialogue`, its names and sessions, `amqproxy.comparison` for differences, and what is below
them.
"""
