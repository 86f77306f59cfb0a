"""Exchanges of every type, and what delayed exchanges hold.

- `exchange`: what all types share: bindings. `exchange_types`: the types by name, as exchange.declare has them.
- `direct`, `fanout`, `topic`, `headers`: the types of the specification.
- `consistent_hash`: x-consistent-hash. `delayed`: x-delayed-message.
- `delayed_messages`: the messages that the delayed exchanges of a virtual host hold until they are due.
"""
