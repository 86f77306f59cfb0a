"""The engine of a passage with rules, for every protocol. No trio, sockets or clock: frames and times go in.

- `session_rules` is the interface to the rules of a session; `effects` are what they want besides sending.
- `delayed_commands` keeps what waits: for its time, for an operator, for its turn. `queued_bytes` charges it to the
  session.

The commands that rules see are 0-9-1's in every protocol (`amqproxy.conversion`). What differs between protocols is in
the folders `interception` of the dialects.
"""
