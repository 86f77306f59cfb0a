"""Metrics of the broker for Prometheus, with the names, labels and help texts of RabbitMQ's plugin rabbitmq_prometheus.

    endpoints    the three paths
    metric       one metric: name, type, help text, RabbitMQ versions; its samples as text, a slice at a time
    aggregated   the whole broker, from counts that it keeps: `/metrics`
    node         the node's resources, limits, alarms and identity
    families     metrics of each queue, channel, connection, exchange and virtual host, by RabbitMQ's families
    per_object   the metrics of chosen families: `/metrics/per-object`, `/metrics/detailed`

Metrics of what this broker does not have or count, such as Erlang's runtime and Raft, are left out.
"""
