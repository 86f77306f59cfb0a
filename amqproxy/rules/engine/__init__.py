"""Evaluates the rules of a session for each command, and checks and explains them.

- `evaluator`: which rules are asked, in which order, and the verdict that comes of it.
- `compiled_rule`: one rule with its conditions, prepared. `rule_index`: rules by method and exchange.
- `decision_cache`: decisions about methods that were seen before, byte for byte.
- `last_queue`: the queue that an empty name stands for.
- `outcome`: a verdict in one word, counted. `describe`: a verdict in a sentence. `explanation`: rules in sentences.
- `validation`: errors in rules that no key shows by itself. `rule_warnings`: rules that can be bypassed or never apply.
- `frame_filter`: the frames of those commands for which a filter holds, for taps.
"""
