"""Policy as pure functions: what may pass, what changes on its way, and what is made to go wrong.

Its rooms, from the top down:

- `actions`: all kinds of rule, selected by `action` in the configuration.
- `engine`: evaluates the rules of a session for each command; checks and explains rules.
- `observing`: tag, log, mirror and hold.
- `rewriting`: rewrite and redact.
- `scripting`: rules written in Python.
- `limits`: rates, quotas, prefetch, message sizes.
- `faults`: faults of commands and of the byte stream.
- `access`: access lists, allow and refuse.
- `rule`: what all rules share, and what else one may be: cacheable, stateful, reversible, impairing the byte stream.
- `matching`: match conditions, CEL expressions, templates.
- Used by all of them: `context` is what a rule may know about a command, its client and its connection,
  `client_info` reads the latter from the handshake; `verdict` is what becomes of a command, `sendable` checks that it
  can be encoded, `drop` makes the verdict that ends a command quietly; `short_strings` keeps texts within what the
  protocol can hold, `units` reads "64KiB", "200ms" and "6000/m", and `resources` is how rules get
  files, environment variables and functions.

A `Rule` is its own configuration: a struct with a `match`, perhaps a CEL expression in `when`, and a `decide` that
makes a `Verdict` of a command. The `RuleEvaluator` (`engine.evaluator`) of a session knows which frames its rules need
to see, asks those whose match holds, in the order of the file, and joins what they decide. Each sees the command as the
rules before it left it; the first that refuses, drops or allows it is final. What a `Stateful` rule counts is kept
apart from it, in a `RuleState`.

In come commands of either peer, what is known of the client, and the time; out come verdicts, which the session in
`proxy` carries out. There is no input or output here, no clock (but that `rewriting.substitution` bounds its own work)
and no logging; it imports `amqp091`.
"""
