"""Benchmarks that print ratios: amqproxy and its peers, measured in turns, in one run, on the same bytes.

`relay`, `rules`, `latency` and `memory` place the proxies between raw sockets (`load`) that send pre-built bytes
(`talk`), and so does `watch`, which measures what metrics and subscribers cost; `rabbitmq` places them in front of a
real broker; `broker` sends `traffic` through the integrated broker and through RabbitMQ, and `scale` fills the
integrated broker with queues and clients; `fairness` measures what a second client notices while another keeps a broker
or a proxy busy; `decode` reads a file that `recording` writes. `peers` starts the other programs, `report` prints.
Nothing here is a test: machines are noisy, and ratios are not promises.
"""
