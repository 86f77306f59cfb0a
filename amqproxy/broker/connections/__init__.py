"""A client's connection to the broker without its protocol; the dialects beside this package derive from it.

- `client_connection`: turns, jobs, blocking, timers, closing, and what a dialect has to add.
- `login`: SASL and the virtual host. `heartbeats`: when each peer was last heard.
- `output`: frames waiting to be sent to the client. `unacked`: delivered messages by delivery tag.
- `closing`: how a connection ends, and how long that may take. `exclusive_queues`: their end.
"""
