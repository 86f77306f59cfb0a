"""AMQP 0-9-1 in captures: resynchronization in damaged bytes, cuts into packets, and masking of secrets."""
