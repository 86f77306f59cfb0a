"""Evaluates the rules of a session for each command, and checks and explains them.

- `evaluator`: the rule set of a config, and the evaluator of a session, which answers about each of its commands.
- `method_analysis`: what a method alone decides. `rule_calls`: calls the rules that are left, and joins their verdicts.
- `rule_states`: what rules remember of a session. `redactions`: what may be shown of commands and of the client.
- `compiled_rule`: one rule with its conditions, prepared. `rule_index`: rules by method and exchange.
- `decision_cache`: decisions about methods that were seen before, byte for byte.
- `last_queue`: the queue that an empty name stands for.
- `outcome`: a verdict in one word, counted. `describe`: a verdict in a sentence. `explanation`: rules in sentences.
- `validation`: errors in rules that no key shows by itself. `rule_warnings`: rules that can be bypassed or never apply.
- `frame_filter`: the frames of those commands for which a filter holds, for taps; of 0-10, in `assembly_filter`.
"""
