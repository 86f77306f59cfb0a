"""Uses that a later RabbitMQ refuses or takes differently."""
