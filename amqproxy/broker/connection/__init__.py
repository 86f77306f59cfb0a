"""One client's connection and its channels, sans-IO: bytes in, bytes out.

- `client_connection`: the connection: its channels, blocking, closing. `handshake`: what comes before it is open.
- `channel`: one channel: every method that a client may send on it, and the replies.
- `publisher`: one channel's publishes: content put together, checked, routed and confirmed.
  `publish_checks`: what a publish must be like, and its properties on the way in.
- `deliveries`: one channel's deliveries and acknowledgements. `unacked`: delivered messages by delivery tag.
- `owners`: what a channel knows of its connection, and its parts of the channel.
- `output`: frames waiting to be sent to the client.
- `direct_reply_to`: the pseudo-queue amq.rabbitmq.reply-to.
- `closing`: how a connection ends, and how long that may take.
"""
