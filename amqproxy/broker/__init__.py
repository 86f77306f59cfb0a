"""A whole AMQP broker in one process: of 0-9-1, as RabbitMQ is one on the wire, and of 0-10. Its rooms, top down:

- `server`: the broker in trio: sockets, tasks, timers, persistence.
- `amqp091` and `amqp010`: a client's connection and its channels or sessions, in either protocol: bytes in, bytes out.
- `connections`: the parts of a connection that both share.
- `definitions`: definitions.json, and the definitions that a restart recovers.
- `broker`: the broker as a whole. `clients`: what it knows of connections. `vhost`: one virtual host;
  `router`: where a message goes in it; `dead_letter_publisher`: where its dead letters go.
- `exchanges`: the exchange types, and delayed messages.
- `queues`: classic queues, quorum queues and streams, their messages and their consumers.
- `access`: users, permissions, limits, authentication.
- `storage`: the journal, the SQLite store, and page files.
- Used by all of them: `message` is one message, however many queues hold it; `arguments` reads tables of
  arguments as RabbitMQ does, `name_pattern` an operator's regular expressions; `events` and the `firehose` report what
  happens; `schedule` is what is due when, `work` how much one turn of the loop may do; `consumer_timeout` finds
  channels that hold a message for too long, `unsent_bytes` counts what waits to be sent, and `server_properties` is the
  content of connection.start.

The model, which is all but `server`, opens no socket and reads no clock: times are passed in, in seconds.

What every message goes through is compiled, where there is a compiler. The client's connection passes its frames to a
channel's `Publisher` (`amqp091.publisher`), which puts messages together, checks and routes them; queues keep them
in a `Backlog` (`queues.backlog`) and hand them, in `RoundRobin` (`queues.round_robin`), to the `Deliveries`
(`amqp091.deliveries`) of their consumers' channels, which write them to the connection's `OutputBuffer`
(`connections.output`) and know what is unacknowledged (`connections.unacked`). A `.pxd` beside a module declares its C
attributes: its attributes have a type and a place there, and the source stays plain Python.

The model records durable changes in a `Journal` (`storage.journal`); `storage.store` writes them in batches to SQLite,
in its own thread. A `DurabilityTicket` is complete once a publish is safe: on disk, or consumed before that.

When memory is short, `Paging` (`queues.paging`) moves what is behind the heads of the longest queues to the disk.

No turn of the loop works without bound: each has a `Quantum` of operations and time (`work`), and what does not fit
into it, a million messages to be requeued or 10,000 exclusive queues to be deleted, is `WorkQueue` for later turns. A
connection does nothing else that its client asks for until that is done, and a request about a queue that is concerned
waits, so that to clients it seems to be done at once.

To embed it: `async with serve(broker) as port` in trio, `with serve_in_thread() as background` without;
`server.from_config` makes the broker that a configuration describes.
"""

from amqproxy.broker.broker import Broker
from amqproxy.broker.server.background import Background, serve_in_thread
from amqproxy.broker.server.server import BrokerServer, serve

__all__ = ["Background", "Broker", "BrokerServer", "serve", "serve_in_thread"]
