"""Mocking: the server's side of recorded connections, played to live clients.

    `ConnectionSteps` → `ServerScript` (what the server answered to what) → `MockConnection` ↔ a client's bytes

- `server_script`: each command of the recorded client with what the server answered, and how long after; what
  consumers got.
- `cast`: which recorded connection a live one plays.
- `waiting_commands`: which recorded command a live one is; which one comes nearest.
- `live_contents`: what the live client has published in place of what the recorded one did.
- `mock_channel`, `mock_connection`: one live client: sans-IO, bytes and the time in, bytes out.
- `amqp010_server_script`, `amqp010_mock_session`, `amqp010_mock_connection`: the same of 0-10; `scripts` has those of
  either protocol.
- `later_tasks`: what a connection does at its time, and its deadline.
- `mock_notes`, `mock_report`: what a client did that differed.
- `mock_server`: the trio shell.

Imports: `amqproxy.replay.dialogue`, `names` and `amqp010_names`, `amqproxy.comparison` for differences, and what is
below them.
"""
