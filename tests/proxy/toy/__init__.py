"""A third protocol, of lines, that a session relays without a change outside this folder.

A line is `CHANNEL VERB WORDS`. `0 HELLO user` and `0 WELCOME` open the connection, `0 BYE code text` and `0 BYE-OK`
close it; `PUB exchange key body` and `MSG queue key body` are messages, `CLOSE code text` and `CLOSED` end a channel,
which begins with its first line. A body may come in many lines: `PUB` with `+` for a body, `MORE text`, and `END`.
"""
