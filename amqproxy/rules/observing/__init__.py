"""Rules that note, copy or hold a command, and do not change it.

- `tag`: gives a command a name for records and logs. `log`: writes a line to the log.
- `mirror`: publishes a copy elsewhere.
- `hold`: holds a command until it is released through the control socket.
"""
