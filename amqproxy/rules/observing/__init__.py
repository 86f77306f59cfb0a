"""Rules that observe, copy or hold a command without changing it.

- `tag`: tags a command for records and logs. `log`: writes a line to the log.
- `mirror`: publishes a copy to another place.
- `hold`: holds a command until it is released through the control socket.
"""
