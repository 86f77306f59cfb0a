"""The engine of a passage with rules, for every protocol. No trio, sockets or clock: frames and times go in.

- An `Interceptor` (`interceptor`) is the passage; a dialect derives its own, with channels that take frames and yield
  `actions`. The `ActionExecutor` (`action_executor`) carries these out, each before the channel continues.
- Its `evaluation` asks the rules of the session, to which `session_rules` is the interface; `effects` are what they
  want besides sending.
- `delayed_commands` keeps what waits, each a `waiting_command`: for its time, for an operator, for its turn.
  `queued_bytes` charges it to the session.

The commands that rules see are 0-9-1's in every protocol (`amqproxy.conversion`). What differs between protocols is in
the folders `interception` of the dialects.
"""
