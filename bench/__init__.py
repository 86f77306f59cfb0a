"""Benchmarks that print ratios: amqproxy and its peers, measured alternately, in one run, on the same bytes.

`relay`, `rules`, `latency` and `memory` place the proxies between raw sockets (`load`) that send pre-built bytes
(`talk`), and so do `tls`, and `watch`, which measures the cost of metrics and subscribers; `rabbitmq` places them in
front of a real broker; `broker` sends `traffic` through the integrated broker and through RabbitMQ, and `scale` fills
the integrated broker with queues and clients; `fairness` measures a second client's round trips while another keeps a
broker or a proxy busy; `decode` reads a file that `recording` writes. `peers` starts the other programs, `report`
prints.

These are not tests: machines are noisy, and ratios are not promises.
"""
