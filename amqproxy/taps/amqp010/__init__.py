"""0-10 frames in the form shown to taps, and the terms in which 0-10 messages and sessions are reported.

`chunk` has the frames of one read, `record` their records, `transfers` the messages of events, `session_ends` the codes
with which sessions end.

Imports: `amqproxy.amqp010`, `amqproxy.taps.note` and `amqproxy.taps.record`.
"""
