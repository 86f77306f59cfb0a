"""Policy as pure functions: what may pass, what changes on its way, and what is made to go wrong.

A `Rule` is its config: a struct with a `match`, perhaps a CEL expression, and a `decide` that makes a `Verdict` of a
command it is shown. `judge` has the rules of one session: it says which frames they need to see, asks those whose match
holds, in the order of the file, and joins what they decide. Each sees what those before it made of the command; the
first that refuses, drops or allows it has the last word. What a rule counts is kept apart from it, in a `Memory`.

In come commands of either peer, what is known of the client, and the time; out come verdicts. Nothing is sent here: the
session's crossing in `proxy` carries verdicts out. No input or output, no clock, no logging; it imports `amqp091`.
"""
