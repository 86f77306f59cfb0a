"""What watches the traffic and never touches it.

A `Record` (`record`) is one frame as others see it: in `decode --json`, in `run --print`, and in
all that will follow (recorder, hub, live view). `text` puts records in lines for a person, and
`metrics` counts for Prometheus. Imports: `amqproxy.amqp091`, msgspec, prometheus-client.
"""
