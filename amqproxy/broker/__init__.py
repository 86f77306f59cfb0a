"""A whole AMQP 0-9-1 broker in one process, as RabbitMQ is one on the wire.

The model is pure: a `Broker` (`broker`) holds `VirtualHost`s (`vhost`), and these hold exchanges (`exchange`, one type
a file in `exchanges`), `Queue`s (`queue`; `queue_types` has the others: `quorum`, `stream`) with their `Consumer`s
(`consumer`), and route `Message`s (`message`). A `Link` (`link`) is one client's connection and `ServerChannel`
(`server_channel`) one of its channels: octets go in, and octets to send come out. None of them opens a socket or reads
a clock; times are passed in, in seconds.

Who may do what: `users` and their `permissions` by patterns, known by a `sasl` mechanism, within `limits`. What things
are declared with: `arguments`, `queue_arguments`, `policies` over them; `definitions` is all of it as one file. What
becomes of messages: `publishing` (which are taken), `outcomes` of what was handed out, `dead_letters`,
`direct_reply_to`, the `firehose` and other `events`.

What every message goes through is compiled, where there is a compiler: a link's frames go to a channel's `Publishes`
(`publishes`), which put messages together, check and route them; queues keep them in `Backlog`s (`backlog`) and hand
them, in `Turns` (`turns`), to the `Deliveries` (`deliveries`) of their consumers' channels, which write them to the
link's `Output` (`output`) and know what is out until it is settled (`unacked`), as many as the `prefetch` allows. A
`.pxd` beside a module says what of it C sees: its attributes have a type and a place there, and the source stays plain
Python.

What is durable, the model notes down in a `Journal` (`journal`): definitions through a `Remembrance` (`remembrance`),
as the values in `durable`, and messages through the `KeptBacklog`s (`kept_backlog`) that a queue's `Keeper` (`keeper`)
gives it; a stream's `StreamLog` (`stream_log`) and what delayed exchanges hold (`held`) have lanes there too. `store`
writes what has gathered, in the form of `packing`, to SQLite in a thread of its own, as soon as `Gathering`
(`gathering`) finds it worth it, and `keeping` binds the two in trio. A `Pledge` says when a publish is safe: on the
disk, or used before that.

When memory gets short, `Paging` (`paging`) has the longest queues park what is behind their heads (`parked`): what a
lane has is read back from there, and all else from a `Spill` (`spill`) of nameless files.

No turn of the loop works without bound: each has a `Quantum` of operations and time (`work`), and what does not fit
into it, a million messages to be requeued or 10,000 exclusive queues to be deleted, is `Work` for later turns. A link
does nothing else that its client asks for until that is done, and whoever asks about a queue that it concerns waits,
so that nobody can tell it from having been done at once.

The rest is the trio shell. A `Server` (`server`) accepts clients and gives each an `Attendant` (`attendant`), which
feeds its link from a `Transport` of `amqproxy.sockets`; what the broker then has to say, to whomever, leaves through
the `Outbox` (`outbox`). A `Timekeeper` (`timekeeper`) wakes the model when something is due (`schedule`), by a clock
that begins at the `time_of_day`, and tells it what it uses of the machine (`resources`, `heap`). `overdue` finds
channels that hold a message for too long. `log_exchange` publishes what the broker logs.

To embed it: `async with serve(broker) as port` in trio, `with serve_in_thread() as background` without (`background`);
`configured` is the broker that a config describes.
"""

from amqproxy.broker.broker import Broker
from amqproxy.broker.server.background import Background, serve_in_thread
from amqproxy.broker.server.server import Server, serve

__all__ = ["Background", "Broker", "Server", "serve", "serve_in_thread"]
