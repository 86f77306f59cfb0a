"""A man-in-the-middle for AMQP: it decodes both directions into typed frames, and forwards them unchanged.

The package, from the ground up. Each floor imports only floors below it; import-linter holds it to that. `peer` names
the two ends of a connection.

`amqp091` is AMQP 0-9-1 with RabbitMQ's extensions: bytes to frames, frames to methods, methods to commands, and one
state machine for both peers. It takes bytes and the time, and returns values; it opens no socket and reads no clock.

`amqp010` is AMQP 0-10, in the same shape; `conversion` has what one of the two says as what the other says.

`rules` is policy as pure functions: what may pass, what changes on its way, and what is made to go wrong.

`taps` observe what passes and never slow it down: `trace` works out what happened, `record` is one frame, `findings`
what an expert would point out, `metrics` counts for Prometheus.

`linking` puts these events together across connections: the life of each message, from its publish to its last ack.

`broker` is the integrated broker: a pure model of virtual hosts, exchanges, queues and users, a store for what is
durable, and a trio server; the proxy can have it as its upstream in the same process.

`sockets` carries bytes to and from one peer, over TCP or TLS, for the proxy and the broker alike. `pump` relays
connections in their steady state: a compiled loop in threads of its own.

`proxy` is trio: a listener, a session for each client, and an upstream over TCP or TLS. `capture` reads pcap and pcapng
and puts TCP streams together again, so that a file decodes as live traffic does. Neither knows of the other.

`moving` moves the waiting messages of queues from one broker to another, by confirms before acknowledgements.
`switching` leads a proxy's clients from one upstream to another, and their messages after them.

`bodies` shows what is in a message: text, JSON, MessagePack and others, and what decoders of addons read.

`control` is the socket through which a running proxy is queried, followed and controlled, with its client library;
`top` shows it in the terminal: the extra `amqproxy[top]`.

`telemetry` exports a span for each message to OpenTelemetry: the extra `amqproxy[otel]`.

`readiness` reports who would break on an upgrade of RabbitMQ, from traffic, definitions and rabbitmq.conf.

`workbench` looks into the queues of any broker, and moves, edits, brings back and keeps their messages.

`pipeline` makes tables of captures on Spark, and answers of tables: the extra `amqproxy[pipeline]`.

`tokens` checks OAuth 2 tokens by the keys of their issuer, for logins at the proxy and at the broker.

`testing` has the fixtures of pytest: a broker and a proxy for tests, in threads.

`configuration` reads the configuration file into types. `process` has the log, the owner of each failure, and what a
service manager asks for. `app` wires everything up in one nursery, and `cli` is the command.

`addons` finds the rules, findings, decoders, formats and commands that other packages add by entry points.

`compiled` is the base of the modules that Cython compiles, and chooses between their compiled and their plain form.
"""

from amqproxy.compiled import _pure

__all__ = ["__version__"]

__version__ = "0.2.0"

_pure.install()
