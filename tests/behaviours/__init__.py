"""What a broker does, seen from its clients: one suite, run against RabbitMQ and against our own broker.

A file a topic, a row a behaviour, and the same expectations for both. What RabbitMQ 3.10 cannot do is marked
`unsupported_on_rabbitmq("why")`.

client           a small blocking client that shows all that it receives, in order
scene            what a test works with: channels, and names that no other test uses
target           a broker that runs, and the hand on its controls
rabbitmq_target  RabbitMQ, by rabbitmqctl
own_target       our own broker, embedded
"""
