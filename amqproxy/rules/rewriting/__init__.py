"""Change commands on their way, and what records show of them.

- `rewrite`: the rule. `edit`: changes to tables, properties and fields. `body_edit`: changes to bodies.
- `name_translation`: names to the broker and back to the client. `renaming`: one new name, and the old one from it.
  `name_fields`: the fields that hold names.
- `login`: the credentials that the broker gets. `tuning`: smaller limits in connection.tune.
- `substitution`: replaces what a regular expression matches, with bounded work.
- `trace_context`: W3C Trace Context in headers.
- `redact`: the rule that hides values from records, captures and logs. `masking`: how a value is masked.
- `secret`: values that are used and never shown.
"""
