"""Match conditions, CEL expressions and templates over one set of attributes.

- `match`: the `match` of a rule. `condition`: a single condition, and the part of a command that it needs.
- `attributes`: the names in conditions, expressions and templates, and the source of each value.
- `patterns`: globs, regular expressions, topic patterns, exact texts. `clock_time`: times of day and days of the week.
- `name_pattern`: an operator's regular expressions for names, in permissions, policies and lists.
- `generated_names`: the generated parts of names, and the pattern of all such names.
- `operations`: the operations of a command on exchanges and queues, and the names in it.
- `filters`: compiled CEL expressions. `expressions`: their attributes. `expression_types`: their types.
- `templates`: texts with attributes in braces.
- `tokens`: pieces of a text with their position. `diagnostics`: error messages with a caret.
"""
