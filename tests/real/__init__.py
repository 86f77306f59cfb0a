"""End to end with real components: RabbitMQ, its clients, and raw sockets that break the rules.

require    what a test needs from outside, or a skip
rabbitmq   a private RabbitMQ node
proxy      amqproxy as a separate process
own        our own broker as such a process
full       amqproxy with memory as full as a test needs
wire       a relay that records every byte, and the comparison of both sides of the proxy
route      recorders on both sides of a proxy
reports    messages and findings as reported live, and as a capture of the same run shows them
raw        a socket that speaks AMQP, and can speak it wrongly
malformed  wrong input by name, and what RabbitMQ answers to it
clients    the same scenarios for every client library
celery_tasks  what Celery's workers do
celery_defaults  a Celery program that sets nothing
"""
