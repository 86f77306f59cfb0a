"""The 0-10 dialect of a session.

- `dialect` names the parts for `amqproxy.proxy.dialects`; `traffic` makes them, and does what follows from methods.
- A `leg` for each peer; a `direction` makes frames of what one peer sends; a `pass_through` is the passage without
  rules. A `drain` decides what passes before the client is asked to close. A `packed_leg` is a leg while a pump has
  the connection. A `session_meter` counts messages.
- A `client_observer` notes what the client declares, and the broker completes.

Imports: `amqproxy.amqp010`, `amqproxy.proxy.session` and below.
"""
