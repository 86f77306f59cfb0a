"""The table of RabbitMQ's versions."""
