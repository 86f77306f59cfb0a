"""Selected connections, channels and times of captures.

- `selection`: which connection and channel are shown, and from when until when.
- `conversation`: the connection, and perhaps the channel, that is followed.
- `session_legs`: which connections of a recording belong together.
- `time_window`: from when, and until when.
"""
