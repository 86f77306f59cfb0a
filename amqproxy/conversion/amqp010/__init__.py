"""Conversion between AMQP 0-10 and 0-9-1.

- `header_tables`: application headers and arguments as field tables.
- `error_codes`: 0-10 codes for 0-9-1 codes.
- `message_properties`: the properties of a message.
- `command_view`: a complete control or command as a 0-9-1 command for rules, and the changes that rules make: by
  `method_views`, each a `method_shape`, and `message_views`. Changes without a counterpart raise `Inexpressible`.
- `awaited_deletes`: completions of queue deletes, which rules see as the answers to them.
"""
