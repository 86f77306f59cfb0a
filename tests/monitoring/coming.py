"""Metrics that are described and asked for already, and counted from one of the next changes on."""

MESSAGES = ("published", "confirmed", "nacked", "returned", "delivered", "redelivered", "auto_acked")
SETTLEMENTS = ("acked", "rejected", "requeued", "untimed", "by")

COMING = {
    *(f"amqproxy_messages_{each}_total" for each in (*MESSAGES, *SETTLEMENTS)),
    "amqproxy_messages_unconfirmed",
    "amqproxy_messages_unacked",
    "amqproxy_consumers",
    "amqproxy_publish_confirm_seconds",
    "amqproxy_delivery_ack_seconds",
    "amqproxy_request_seconds",
    "amqproxy_published_bytes",
    "amqproxy_delivered_bytes",
    "amqproxy_upstream_up",
    "amqproxy_findings_total",
    "amqproxy_series_refused_total",
}
