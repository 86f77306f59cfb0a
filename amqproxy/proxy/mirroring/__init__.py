"""Copies of publishes, sent to other exchanges and upstreams.

- `mirrors` has all mirrors of a proxy, and bounds what waits for them.
- `mirror_publisher` sends the copies for one of them, in a task of its own, and connects again when that fails.
- `mirror_drops` has the reasons why a copy was dropped.
"""
