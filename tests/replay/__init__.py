"""Tests of `amqproxy.replay`."""
