"""Faults on purpose.

- `fault`: the rule. `trigger`: on which commands a fault happens: every one, some, the first ones.
- `command_faults`: faults of single commands: dropped, reordered, cancelled, blocked.
- `stream_faults`: faults of the byte stream: latency, bandwidth, slicing, resets.
- `impairments`: what is done to a stream, as values. `delay_line`: the bytes on their way while that is done.
"""
