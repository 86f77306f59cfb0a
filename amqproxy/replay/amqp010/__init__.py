"""Replay of 0-10 connections.

`step_reader` makes steps of a recorded connection, each an `assembly_sent`. `player` plays its client: it is a
`compared_connection`, which compares the broker's commands with the recording, on a `live_connection`; `session` is
each session, `restored_session` one that was attached before the capture began. `names` renames queues and exchanges in
controls and commands.
"""
