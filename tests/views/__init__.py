"""Tests of `amqproxy.views`; `snapshots` has what some of them look like."""
