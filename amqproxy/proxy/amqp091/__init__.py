"""The 0-9-1 dialect of a session.

- `traffic` creates the other parts, and applies the effects of methods.
- A `leg` for each peer; a `direction` parses frames from one peer's bytes; a `pass_through` is the passage without
  rules. A `drain` filters frames until the client is sent connection.close. A `packed_leg` is a leg while a pump has
  the connection. A `session_meter` counts messages. A `snapshot` is the state of the channels, for taps that join.
- A `handshake` paces a client that sends ahead of the broker's replies. A `client_observer` records what the client
  declares.

Imports: `amqproxy.amqp091`, `amqproxy.proxy.session` and below.
"""
