"""Policy as pure functions: what may pass, what changes on its way, and what is made to go wrong.

A `Rule` (`rule`) is its config: a struct with a `match`, perhaps a CEL expression, and a `decide` that makes a
`Verdict` (`verdict`) of a command as it is `seen`, by a client that is known from its `introduction`. `judge` has the
rules of one session: it says which frames they need to see, asks those whose match holds, in the order of the file, and
joins what they decide. Each sees what those before it made of the command; the first that refuses, drops or allows it
has the last word. What a rule counts is kept apart from it, in a `Memory`.

The language: a `match` has conditions (`condition`) about what `names` stand for, which hold by a `pattern`, a
`quantity`, a `clock_time`; `filters` are CEL over the same names, after `expression` has looked for these in the text.
An `acl` is read by `access_list` and expanded to rules that `allow` and `refuse`. Both languages are cut into `token`s,
at which what is wrong is pointed, in the same `wording` everywhere. `flaw` says what is wrong with rules, `explanation`
what they do, and `telling` puts verdicts in words; `actions` has all rules. The `judge` asks `case`s, rules made ready,
which a `table` chooses by method and exchange, and remembers what is `known` of methods that are the same to the octet.

A `Limit` (`limit`) is one of several `measure`s: what passes a second (`pace`, from `token_bucket`s), what there may be
at a time (`census`, kept in an `inventory` for each session), `prefetch`, `message_size`; a `group` is who shares it,
and an `overrun` what becomes of a command above it. A `Fault` (`fault`) happens on some `occasions`: to single commands
(`command_faults`), or to octets (`octet_faults`). These are `impairments`, which a `delay_line` carries out.

How to `refuse` depends on the method; whoever waits for what goes no further is answered (`withholding`), in a
`reply_text` that fits. A `rewrite` changes names by a `renaming`, wherever they stand (`name_places`), a `login`,
limits (`tuning`), what an `edit` or a `body_edit` is about, and begins a `trace_context`; `redact` covers what taps see
by `masking`. What an expression matches is replaced by a `substitution`. A `script` is Python of the config's: `code`
loads it, `scripting` is what it is written with. Texts with places are `template`s, what must not be shown a `secret`;
files and variables come from `resources`, once, when the config is loaded.

To look and not to touch: `tag` and `log` say that a command has come, `mirror` sends copies elsewhere, and `hold` lets
it wait for somebody's word. A `sieve` asks a filter outside of all rules, for those who want to see some commands only.

In come commands of either peer, what is known of the client, and the time; out come verdicts. Nothing is sent here: the
session's crossing in `proxy` carries verdicts out. No input or output, no clock (but that a `substitution` bounds its
own work), no logging; it imports `amqp091`.
"""
