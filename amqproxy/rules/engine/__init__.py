"""Evaluates the rules of a session for each command, and checks and explains them.

- `evaluator`: the rule set of a configuration, and the evaluator of a session, which decides about its commands.
- `method_analysis`: decisions that depend on a method alone. `rule_calls`: calls the other rules and joins verdicts.
- `rule_states`: per-session state of rules. `redactions`: commands and client facts as they may be shown.
- `compiled_rule`: one rule with its prepared conditions. `rule_index`: rules by method and exchange.
- `decision_cache`: decisions about methods, cached by their bytes.
- `last_queue`: the queue that an empty name refers to.
- `outcome`: a verdict in one word, counted. `describe`: a verdict in a sentence. `explanation`: rules in sentences.
- `validation`: errors in rules that no key shows by itself. `rule_warnings`: rules that can be bypassed or never apply.
- `frame_filter`: filters the frames of a 0-9-1 connection by command, for taps.
"""
