"""A complete AMQP broker in one process, with RabbitMQ's behaviour on the wire. Its rooms, top down:

- `server`: the broker in trio: sockets, tasks, timers, persistence.
- The dialects, a folder for each protocol, such as `amqp091`: a client's connection and its channels or sessions: bytes
  in, bytes out. `server.dialects` lists them.
- `connections`: the parts of a connection that all protocols share.
- `definitions`: definitions.json, and the definitions that a restart recovers.
- `broker`: the broker as a whole. `clients`: its interfaces to connections. `consumer_timeout` finds channels that hold
  a message for too long; `paging` moves messages to disk when memory is short. `vhost`: one virtual host;
  `router`: the routing of messages in it; `dead_letter_publisher`: the publishing of its dead letters.
- `exchanges`: the exchange types, and delayed messages.
- `queues`: classic queues, quorum queues and streams, their messages and their consumers.
- `access`: users, permissions, limits, authentication.
- `storage`: the journal, the SQLite store, and page files.
- Used by all of them: `message` is one message, shared by all queues that hold it; `arguments` reads argument tables as
  RabbitMQ does; `events` and the `firehose` report events;
  `schedule` orders timers, `work` bounds the work of one turn of the loop; `unsent_bytes` counts the bytes that wait to
  be sent, and `server_properties` is the content of connection.start.

The model, which is everything except `server`, opens no socket and reads no clock: times are passed in, in seconds.

The modules on the path of every message are compiled if a compiler is available. The client's connection passes its
frames to a channel's `Publisher` (`amqp091.publisher`), which assembles, checks and routes messages; queues keep them
in a `Backlog` (`queues.backlog`) and hand them, in `RoundRobin` (`queues.round_robin`), to the `Deliveries`
(`amqp091.deliveries`) of their consumers' channels, which write them to the connection's `OutputBuffer`
(`connections.output`) and track unacknowledged ones (`connections.unacked`). A `.pxd` beside a module declares the C
types and layout of its attributes, while the source stays plain Python.

The model records durable changes in a `Journal` (`storage.journal`); `storage.store` writes them in batches to SQLite,
in its own thread. A `DurabilityTicket` is complete once a publish is safe: on disk, or consumed before that.

When memory is short, `Paging` (`paging`) moves the messages behind the heads of the longest queues to disk.

Every turn of the loop is bounded: each has a `Quantum` of operations and time (`work`), and work beyond it, such as a
million messages to requeue or 10,000 exclusive queues to delete, goes to the `WorkQueue` for later turns. Until it is
done, the connection processes no further request of its client, and a request about an affected queue waits, so that
clients see the operation as atomic.

To embed it: `async with serve(broker) as port` in trio, `with serve_in_thread() as background` without;
`server.from_config` creates the broker that a configuration describes.
"""

from amqproxy.broker.broker import Broker
from amqproxy.broker.server.background import Background, serve_in_thread
from amqproxy.broker.server.server import BrokerServer, serve

__all__ = ["Background", "Broker", "BrokerServer", "serve", "serve_in_thread"]
