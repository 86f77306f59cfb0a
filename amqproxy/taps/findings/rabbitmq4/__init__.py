"""Findings about uses that a later RabbitMQ refuses, takes differently, or has deprecated.

- `upgrade_detector`: the base class of each, which knows the server's version and its successor.
- `limits`, `declared_queues`, `bindings`, `consumers`, `published_messages`, `delivered_messages`: the detectors.

What differs between versions is in `amqproxy.rabbitmq.incompatibility`.
"""
