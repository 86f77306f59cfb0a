"""Metrics that are described and asked for already, and counted from one of the next changes on."""

COMING = {"amqproxy_messages_by_total", "amqproxy_findings_total", "amqproxy_series_refused_total"}
