"""AMQP 0-10 clients of the broker, which share its model with the AMQP 0-9-1 clients.

A `connection` has sessions, by their `attachments` to its channels. A `session` numbers its commands and has a handler
for each (`commands`: those of `message_commands`, of `model_commands` for exchanges and queues, of `tx_commands` and of
`dtx_commands`); `completions` tracks those that are done. The session's `publisher` (`session_publisher`) takes the
client's transfers, and `fragments` assembles those in parts. Messages for the client come from its `deliveries`
(`session_deliveries`), the `Receiver` of its `subscription`s, with `transfer_headers`, and leave through its `sender`
(`session_sender`); successive single settlements are taken as a `settlement_run`. A `browser` sends messages that are
not acquired, a `selecting_consumer` those that a `jms_selector` chooses by their `jms_properties`. A `work_unit` holds
the operations that wait for a commit, and a `transaction_branch` has one that any session may commit; the
`transaction_log` has their part on the disk, and `transaction_recovery` restores it after a restart. `orphans` empties
queues that are deleted, and `orphan_recovery` sends on the messages that clients held of them at a restart. A session
whose client is gone has a `detachment` in place of a connection, and a `replay` of its unconfirmed commands.

Messages are held in the form of 0-9-1: `message_conversion` translates (see `amqproxy.conversion`), once for all
headers of one `header_shape`, which differ in their `header_places` only; `declare_arguments` translates arguments, and
`exceptions` translates errors. `owners` and `command_session` are the interfaces towards the owners.
"""
