"""AMQP 0-10 frames as shown by tshark, compared with amqproxy's decoding."""
