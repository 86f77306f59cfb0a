"""The parts of a client's connection that do not depend on its protocol. The dialects beside this package use them.

- `login`: SASL and the virtual host.
- `output`: frames waiting to be sent to the client.
- `unacked`: delivered messages by delivery tag.
- `closing`: how a connection ends, and how long that may take.
"""
