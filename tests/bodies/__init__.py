"""Tests of `amqproxy.bodies`."""
