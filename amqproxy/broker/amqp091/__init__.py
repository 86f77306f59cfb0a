"""The broker's dialect of AMQP 0-9-1, as RabbitMQ speaks it: a connection and its channels, bytes in, bytes out.

- `connection`: its methods and its channels. `handshake`: the protocol header.
  `closing_reader`: what follows a frame that was refused.
- `channel`: one channel: every method that a client may send on it, and the replies.
- `publisher`: one channel's publishes: content put together, checked, routed and confirmed.
  `publish_checks`: what a publish must be like, and its properties on the way in; `argument_checks`: those of methods.
- `deliveries`: one channel's deliveries and acknowledgements.
- `owners`: what a channel knows of its connection, and its parts of the channel.
- `direct_reply_to`: the pseudo-queue amq.rabbitmq.reply-to.
"""
