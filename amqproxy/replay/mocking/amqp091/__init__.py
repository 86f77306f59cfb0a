"""Mocking of 0-9-1 connections.

`server_script` holds the recorded server's answers; `mock_connection` plays them to a live client, with a
`mock_channel` for each channel.
"""
