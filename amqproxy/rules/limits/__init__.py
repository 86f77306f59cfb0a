"""Limits on rates, resource counts, prefetch and message size.

- `limit`: the rule. `limit_kind`: the interface of each kind of limit, and the verdict on exceeding one.
- `rate_limit`: an amount per second, from a `token_bucket`.
- `quota`: simultaneous connections, channels, consumers or queues. `resource_counts`: their counts.
- `prefetch`: prefetch and unacknowledged messages. `message_size`: bytes of a message.
- `group`: the commands that share a limit.
"""
