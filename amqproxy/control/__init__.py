"""The control socket: what an operator, or a tool of his, asks of a proxy that runs.

A `Request` (`request`) is a line of JSON, and so is each answer; `docs/control.md` says what they hold. The `Desk`
(`desk`) answers them: it knows the proxy's sessions and rules. What waits for somebody's word is shown as `Held`
(`held`), and goes on as it is, not at all, or after an `Amendment` (`amendment`). `service` is the Unix socket that the
desk is asked through, `counterpart` the other end of it, for the command; `lines` puts answers in lines for a person.

Imports: `amqproxy.proxy` and what is below; trio in `service` alone.
"""
