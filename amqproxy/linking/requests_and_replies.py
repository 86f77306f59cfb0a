"""Requests and their replies, by correlation_id and reply_to."""

from __future__ import annotations

from amqproxy.linking.message_life import MAX_REPLIES, MessageLife, Publish

DIRECT_REPLY_TO = "amq.rabbitmq.reply-to"
"""Name that requests give for a direct reply; RabbitMQ gives the consumer one that begins with it."""

MAX_OPEN = 64
"""Maximum number of requests with one correlation_id that are remembered."""


class RequestsAndReplies:
    """Requests by virtual host and correlation_id: a request's own, else its message_id, as JMS has it."""

    __slots__ = ("_requests",)

    def __init__(self) -> None:
        self._requests: dict[int, list[MessageLife]] = {}

    def link(self, life: MessageLife) -> None:
        """Link a publish to the request that it answers, and remember it if it is a request."""
        publish = life.publish
        assert publish is not None
        if publish.correlation_id:
            found = [
                each
                for each in self._requests.get(hash((publish.virtual_host, publish.correlation_id)), ())
                if _answers(publish, each.publish)
            ]
            if found:
                request = next((each for each in found if not each.replies), found[-1])
                life.request, life.request_among = request.number, len(found)
                if len(request.replies) < MAX_REPLIES:
                    request.replies.append(life.number)
                else:
                    request.more_replies += 1
        if publish.reply_to and (key := _key(publish)) is not None:
            requests = self._requests.setdefault(key, [])
            requests.append(life)
            if len(requests) > MAX_OPEN:
                del requests[0]

    def forget(self, life: MessageLife) -> None:
        """Forget a request."""
        publish = life.publish
        if publish is None or not publish.reply_to or (key := _key(publish)) is None:
            return
        requests = self._requests.get(key)
        if requests is not None and life in requests:
            requests.remove(life)
            if not requests:
                del self._requests[key]


def _key(request: Publish) -> int | None:
    named = request.correlation_id or request.message_id
    return hash((request.virtual_host, named)) if named else None


def _answers(reply: Publish, request: Publish | None) -> bool:
    if request is None or request.reply_to is None or not request.takes_part:
        return False
    if request.reply_to == DIRECT_REPLY_TO:
        return reply.routing_key.startswith(DIRECT_REPLY_TO)
    return reply.routing_key == request.reply_to
