"""AMQP 0-9-1 in captures: frames found again in damaged bytes, cut into packets, and without their secrets."""
