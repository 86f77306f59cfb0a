"""Benchmarks that print ratios: amqproxy and its peers, measured in turns, in one run, on the same bytes.

`relay`, `latency`, `memory` stand the proxies between raw sockets (`load`) that say pre-built bytes (`talk`);
`rabbitmq` stands them in front of a real broker; `broker` sends `traffic` through our own and through RabbitMQ,
and `scale` fills ours with queues and clients; `decode` reads a file that `recording` writes. `peers` starts the other
programs, `report` prints. Nothing here is a test: machines are noisy, ratios are not promises.
"""
