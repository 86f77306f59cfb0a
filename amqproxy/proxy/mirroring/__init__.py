"""Copies of publishes, sent to other exchanges and upstreams.

- `mirrors` has all mirrors of a proxy, and bounds the copies queued for them.
- `mirror_publisher` sends the copies for one of them, in a task of its own, and reconnects after failures.
- `mirror_drops` has the reasons for dropping copies.
"""
