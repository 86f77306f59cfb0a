"""Queues of every type, the messages in them, and the consumers that they deliver to.

- `queue`: a classic queue, and what all types share. `queue_types`: the types by name, as queue.declare has them.
- `quorum`: quorum queues. `stream`, `stream_log`: streams, and the messages in one by their offset.
- `queue_arguments`: the arguments of queue.declare and basic.consume: which are accepted, and what they mean.
- `policies`: an operator's policies over queues and exchanges.
- `consumer`: consumers, the channels that receive for them, and the entries that they are sent.
  `round_robin`: which consumer is next.
- `backlog`: the messages waiting in a queue. `durable_backlog`: the same, with persistent messages in the journal.
- `queue_storage`: where a durable queue finds its messages after a restart.
- `dead_letters`: x-death headers, cycles. `at_least_once`: dead letters that a quorum queue keeps until they arrive.
  `held_orphans`: what clients hold of a deleted queue, on the disk until it is settled or at the alternate exchange.
- `paging`: moves messages from memory to the disk. `paged_messages`: the part of a backlog that is on the disk.
  `paged_bodies`: bodies of delivered or requeued messages on the disk.
"""
