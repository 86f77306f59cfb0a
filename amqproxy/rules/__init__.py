"""Proxy policy as pure functions: which commands pass, which are changed, and which faults are injected.

Its rooms, from the top down:

- `actions`: all kinds of rule, selected by `action` in the configuration.
- `engine`: evaluates the rules of a session for each command; checks and explains rules.
- `observing`: tag, log, mirror and hold.
- `rewriting`: rewrite and redact.
- `scripting`: rules written in Python.
- `limits`: rates, quotas, prefetch, message sizes.
- `faults`: faults of commands and of the byte stream.
- `access`: access lists, allow and refuse.
- A folder of a protocol: what its handshakes say of a client, and its filter of frames.
- `rule`: the interfaces of rules: common keys, and cacheable, stateful, reversible and stream-impairing rules.
- `matching`: match conditions, CEL expressions, templates.
- Shared modules: `context` holds the facts that a rule may read about a command, its client and its connection,
  `client_info` reads the client's part of them from the handshake; `verdict` is the result of a rule, `sendable`
  checks that a verdict can be encoded, `drop` builds the verdict that drops a command; `short_strings` cuts texts to
  the limits of the protocol, `units` reads "64KiB", "200ms" and "6000/m", and `resources` gives rules access to
  files, environment variables and functions.

A `Rule` is its own configuration: a struct with a `match`, an optional CEL expression in `when`, and a `decide` that
returns a `Verdict` on a command. The `RuleEvaluator` (`engine.evaluator`) of a session knows which frames its rules
need to see, calls the rules whose match holds, in the order of the file, and joins their verdicts. Each rule sees the
command as the rules before it changed it; the first verdict that refuses, drops or allows the command is final. The
counters of a `Stateful` rule are kept outside the rule, in a `RuleState`.

The input is the commands of either peer, the facts about the client, and the time; the output is verdicts, which the
session in `proxy` carries out. The room does no input or output, reads no clock (except that `rewriting.substitution`
bounds its own work) and writes no log; it imports `amqp091`.
"""
