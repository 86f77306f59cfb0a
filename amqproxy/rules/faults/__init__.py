"""Fault injection.

- `fault`: the rule. `trigger`: the occasions of a fault: each command, some of them, the first ones.
- `command_faults`: faults of single commands: dropped, reordered, cancelled, blocked.
- `stream_faults`: faults of the byte stream: latency, bandwidth, slicing, resets.
- `impairments`: impairments of a stream, as values. `delay_line`: the queue that applies them to bytes in transit.
"""
