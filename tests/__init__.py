"""Mirrors amqproxy/ and dashboard/; `tests.real` is end to end, with real clients and brokers."""
