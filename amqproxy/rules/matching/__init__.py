"""Which commands a rule is about: match conditions, CEL expressions and templates over one set of attributes.

- `match`: the `match` of a rule. `condition`: one thing that must hold, and how much of a command it needs.
- `attributes`: the names that conditions, expressions and templates know, and where each value comes from.
- `patterns`: globs, regular expressions, topic patterns, exact texts. `clock_time`: times of day and days of the week.
- `generated_names`: what in a name was generated, and the pattern of all such names.
- `operations`: what a command does to exchanges and queues, and where it names them.
- `filters`: CEL expressions, compiled. `expressions`: which attributes one reads. `expression_types`: its types.
- `templates`: texts with attributes in braces.
- `tokens`: pieces of a text with their position. `diagnostics`: error messages with a caret.
"""
