"""The broker's dialect of AMQP 0-9-1, as RabbitMQ speaks it: a connection and its channels, bytes in, bytes out.

- `connection`: its methods and its channels. `handshake`: the protocol header.
  `closing_reader`: the frames that follow a refused one.
- `channel`: one channel: every method that a client may send on it, and the replies.
- `publisher`: one channel's publishes: content assembled, checked, routed and confirmed.
  `publish_checks`: checks and changes of a publish's properties; `argument_checks`: checks of method arguments.
- `deliveries`: one channel's deliveries and acknowledgements.
- `owners`: the interfaces through which a channel sees its connection, and its parts see the channel.
- `direct_reply_to`: the pseudo-queue amq.rabbitmq.reply-to.
"""
