"""Tests of `amqproxy.capture`; `building` makes the packets and files they read."""
