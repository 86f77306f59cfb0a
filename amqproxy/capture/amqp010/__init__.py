"""AMQP 0-10 in captures: frames found again in damaged bytes, cut into packets, and without their secrets."""
