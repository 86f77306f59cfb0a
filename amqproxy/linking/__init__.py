"""The lives of messages across connections: publish → delivery → redelivery, dead letter, reply.

    events of all connections → `message_linker` → lives

- `message_life`: a publish, its deliveries, and how sure each of them is.
- `message_key`: which messages are alike: by message_id, else by content. The pipeline has the same definition.
- `taking_part`: which publishes can have reached a queue. The pipeline has the same definition.
- `alike_messages`: alike messages, and the ones among them that a queue may still deliver.
- `dead_letters`: the history of a dead letter, from its headers.
- `requests_and_replies`: requests and replies, by correlation_id and reply_to.
- `life_record`: a life as a record, its form in JSON; `life_text`: as lines.
- `linked_connection`: the facts about a connection that lives refer to.
- `forgotten_keys`: keys of messages that were forgotten.

A delivery is linked to one publish, the next in turn of those that it can be of, and says among how many. It is sure if
there is one, and nothing alike can have been missed: then it is that publish, unless clients bypass the proxy, or use a
message_id twice. Without a message_id, deliveries are not sure once a connection was joined in its middle, or frames
were lost.

Imports: `amqproxy.taps`, `amqproxy.conversion` and msgspec.
"""
