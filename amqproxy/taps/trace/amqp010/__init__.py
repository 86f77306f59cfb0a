"""Trace of one 0-10 connection: the events of `amqproxy.taps.trace`, made from its frames.

    frames and times → `Amqp010Trace` → events

A client's message.transfer is a publish, confirmed once the server has completed it, or has accepted it; in a
transaction of tx or dtx, once that is committed. A server's is a delivery, which the client settles by message.accept,
reject and release. Every other command is a request, and its result or its completion the reply. A session attached to
a channel is an open channel: its exception, or else its detachment, closes it; each attachment has a separate epoch,
even if a session is resumed.

- `connection_trace`: `Amqp010Trace`, for one connection: its opening and closing, and the sessions on its channels.
- `attachment_trace`: `AttachmentTrace`, one attachment of a session to a channel, composed of the parts that follow.
- `command_numbers`: the positions of the commands of one peer.
- `partial_command`: a command, with the header and body of a transfer, from its frames.
- `pending_commands`: commands that await their results or completions.
- `published_transfers`, `delivered_transfers`: transfers of the client, and of the server, and their settlement.
- `open_transfers`: unsettled transfers, as ranges of positions.
- `transactions`: accepts that take effect with tx.commit; `branches`: work that takes effect with dtx.commit.
- `handshake`: the peers' properties and the limits they agree on.
- `early_frames`: frames of a capture that were seen before the frames that they answer.

As in `trace`, facts that cannot be known are `None` or unknown. Commands have ids only after a session.command-point:
if the connection was joined in its middle, or bytes are missing, nothing is linked before the next one. The past of a
resumed session is unknown, so that its publishes may be in a transaction.

Positions are as in `amqp010.command_ids`: ids that do not roll over.

Imports: `amqproxy.amqp010`, `amqproxy.taps.trace` and msgspec. No clock: the time comes with the frames.
"""
