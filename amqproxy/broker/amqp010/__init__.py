"""The clients of the broker that speak AMQP 0-10: a kind of client beside those of AMQP 0-9-1, of the one model.

A `connection` has sessions, by their `attachments` to its channels, each a `session`: it numbers what comes, and has a
handler for each command (`commands`: those of `message_commands`, of `model_commands` for exchanges and queues, of
`tx_commands` and of `dtx_commands`); its `completions` are those that are done. What a client transfers is for the
session's `publisher` (`session_publisher`, which has `fragments` put together). What it is sent comes from its
`deliveries` (`session_deliveries`), the `Receiver` of its `subscription`s, with `transfer_headers`, and leaves through
its `sender` (`session_sender`); what the client settles one by one is taken as a `settlement_run`. A `browser` sends
what is not acquired, a `selecting_consumer` what a `jms_selector` chooses by a message's `jms_properties`. A
`work_unit` is what waits for a commit, a `transaction_branch` has one that any session may commit; the
`transaction_log` is what of either is on the disk, and `transaction_recovery` finds that again after a restart.
`orphans` empties queues that go, and `orphan_recovery` sends on what was held of them at a restart. A session whose
client is gone has a `detachment` in place of a connection, and a `replay` of what the client has not confirmed.

Messages are held as 0-9-1 has them: `message_conversion` translates (see `amqproxy.conversion`), once for all headers
of one `header_shape`, which differ in their `header_places` only; `declare_arguments` does so for arguments, and
`exceptions` for errors. `owners` and `command_session` are the ways back up.
"""
