"""A client's connection to the broker without its protocol; the dialects beside this package derive from it.

- `client_connection`: turns, jobs, blocking, timers, closing, and the methods that a dialect implements.
- `login`: SASL and the virtual host.
- `deliveries`: delivered messages and their outcomes, the base class of the dialects' deliveries.
- `output`: frames waiting to be sent to the client. `unacked`: delivered messages by delivery tag.
- `closing`: how a connection ends, and its time limits. `exclusive_queues`: their removal.
"""
