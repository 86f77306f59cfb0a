"""The engine of a passage with rules, for every protocol. No trio, sockets or clock: frames and times go in.

- An `Interceptor` (`interceptor`) is the passage; a dialect derives its own, with channels that take frames and yield
  `actions`. The `ActionExecutor` (`action_executor`) carries these out, each before the channel continues.
- Its `evaluation` evaluates the session's rules (`rules.engine.evaluator`); `effects` are the side effects that they
  request.
- `delayed_commands` keeps the delayed, held and queued commands, each with a verdict as a `waiting_command`.
  `queued_bytes` charges them to the session.

The commands that rules see are 0-9-1's in every protocol (`amqproxy.conversion`). Protocol-specific parts are in the
folders `interception` of the dialects.
"""
