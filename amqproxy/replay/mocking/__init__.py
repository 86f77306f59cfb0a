"""Mocking: the server's side of recorded connections, played to live clients.

    `ConnectionSteps` → `ServerScript` (the server's answers to each command) → `MockConnection` ↔ a client's bytes

- `server_script`: each recorded client command with the server's answers, their delays, and the messages that consumers
  got; `script_reading` reads it from steps.
- `mock_connection`: one live client: sans-IO, bytes and the time in, bytes out; `mock_channel` is each of its channels
  or sessions.
- `dialect`: what a protocol has to add; `amqp091` and `amqp010` do, and `dialects` lists them.
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
