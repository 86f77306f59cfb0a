"""The 0-10 dialect of a session.

- `traffic` creates the other parts, and applies the effects of methods.
- A `leg` for each peer; a `direction` parses frames from one peer's bytes; a `pass_through` is the passage without
  rules. A `drain` filters frames until the client is sent connection.close. A `packed_leg` is a leg while a pump has
  the connection. A `session_meter` counts messages.
- A `client_observer` records what the client declares, and the broker completes; a `snapshot` is the state of its
  sessions, for taps that join.

Imports: `amqproxy.amqp010`, `amqproxy.proxy.session` and below.
"""
