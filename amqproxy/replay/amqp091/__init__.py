"""Replay of 0-9-1 connections.

`step_reader` makes steps of a recorded connection. `player` plays its client: it is a `compared_connection`, which
compares the broker's commands with the recording, on a `live_connection`; `played_channel` is each channel,
`login` the handshake.
"""
