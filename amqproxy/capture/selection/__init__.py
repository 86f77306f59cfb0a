"""Selected connections, channels and times of captures.

- `selection`: the connection, channel and time span that are shown.
- `conversation`: the connection, and optionally the channel, that is followed.
- `session_legs`: connections of a recording that belong to the same session.
- `time_window`: the time span.
"""
