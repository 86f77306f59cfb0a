"""Mocking: replay of the server's side of recorded connections to live clients.

    `ConnectionSteps` → `ServerScript` (the server's answers to each command) → `MockConnection` ↔ a client's bytes

- `server_script`: each recorded client command with the server's answers, their delays, and the deliveries to
  consumers; `script_reading` reads it from steps.
- `mock_connection`: one live client: sans-IO, bytes and the time in, bytes out; `mock_channel` is each of its channels
  or sessions.
- `dialects`: the protocols, each a folder.
- `cast`: which recorded connection a live one plays.
- `waiting_commands`: the recorded command for a live one, by its key, and the nearest one.
- `live_contents`: contents that the live client has published in place of the recorded ones.
- `later_tasks`: scheduled tasks of a connection, and its deadline.
- `mock_notes`, `mock_report`: differences between the live and the recorded client.
- `mock_server`: the trio shell.

Imports: `amqproxy.replay.dialogue`, its names and sessions, `amqproxy.comparison` for differences, and all below them.
"""
