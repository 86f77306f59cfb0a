"""0-10 frames as taps are shown them, and the words in which messages and sessions of 0-10 are reported.

`chunk` has the frames of one read, `record` their records, `transfers` what events say of a message, `session_ends` the
codes with which sessions end.

Imports: `amqproxy.amqp010`, `amqproxy.taps.note` and `amqproxy.taps.record`.
"""
