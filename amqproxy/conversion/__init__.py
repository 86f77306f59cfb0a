"""What AMQP 0-10 says as what 0-9-1 says, and back: the one model of both that queues, disks and rules have.

- `header_tables`: application headers and arguments as field tables.
- `error_codes`: the codes of 0-10 for those of 0-9-1.
- `message_properties`: the properties of a message.
- `command_view`: a whole control or command as a command of 0-9-1, for rules, and what they make of it: by
  `method_views`, each a `method_shape`, and `message_views`. What cannot be expressed is `Inexpressible`.

What a protocol lacks becomes the nearest that it has. No input or output; imports both protocols.
"""
