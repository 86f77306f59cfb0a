"""Readiness for an upgrade of RabbitMQ."""
