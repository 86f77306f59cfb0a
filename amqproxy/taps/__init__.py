"""What watches the traffic and never touches it.

A `Record` (`record`) is one frame as others see it: in `decode --json`, in `run --print`, and in
all that will follow (recorder, hub, live view). `text` puts records in lines for a person,
`trace` turns the frames of a connection into what happened: a publish was confirmed after 3 ms. `metrics` counts
for Prometheus, and `printer` is a tap (`tap`) that prints what passes.

Imports: `amqproxy.amqp091`, msgspec, prometheus-client.
"""
