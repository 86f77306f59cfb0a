"""The process that a program runs in: its log, its service manager, its memory, and the owner of each failure.

- `log` writes structured lines, through `line_writer`, whose callers never wait.
- `supervision` keeps a failure with its owner; `exception_frames` frees what a kept exception refers to.
- `systemd` takes sockets from systemd and reports to it.
- `watched_files` notices files that other programs replace.
- `trio_thread` runs a trio loop in a thread of its own; `malloc_trim` gives freed memory back to the system.
"""
