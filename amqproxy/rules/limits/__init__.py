"""Limits: on rates, on how many there may be of a thing, on prefetch and on message size.

- `limit`: the rule. `limit_kind`: what each kind of limit implements, and the verdict above a limit.
- `rate_limit`: so much a second, from a `token_bucket`.
- `quota`: so many connections, channels, consumers or queues at a time. `resource_counts`: how many there are.
- `prefetch`: prefetch and unacknowledged messages. `message_size`: bytes of a message.
- `group`: which commands share a limit.
"""
