"""The control socket: lets an operator, or an operator's tools, query and control a running proxy.

A `Request` (`request`) is one line of JSON, and so is each response; `docs/control.md` describes them. The
`RequestHandler` (`request_handler`) answers requests from the proxy's sessions and rules. A command that a `hold` rule
is holding is shown as a `HeldCommand` (`held_commands`); it can be released as it is, dropped, refused, or released
after a `MessagePatch` (`message_patch`). A client may follow what passes (`subscription`); the `Hub` (`hub`) shows it
to all that do. `service` serves requests on the Unix socket (`unix_socket`), `control_client` is the client that the
command line uses, and `formatting` formats responses for people.

Imports: `amqproxy.proxy` and what is below; trio in `service` alone.
"""
