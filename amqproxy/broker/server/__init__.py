"""The broker in trio: sockets, tasks, timers, the disk.

- `server`: accepts clients; `serve` runs a broker. `background`: the same in a thread, for programs without trio.
- `from_config`: the broker that a configuration describes.
- `connection_task`: carries bytes between a client's transport and its connection.
- `connection_tap` shows a connection's frames to a tap and counts them, with the `reading` in each protocol's folder.
- `dialects` lists the protocols; `protocol_choice` chooses one by the client's header.
- `send_scheduler`: the connections with pending output.
- `timer_task`: runs the model's due timers. `clock`: the model's clock.
- `persistence`: connects the journal and the store, and recovers a broker from its data directory.
- `machine_resources`: memory and disk space in use.
- `connection_log`: log lines about clients, a few for each address at a time.
- `log_exchange`: publishes the broker's log to amq.rabbitmq.log.
"""
