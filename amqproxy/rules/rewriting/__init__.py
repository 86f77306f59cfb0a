"""Rules that change commands, or mask values in records of them.

- `rewrite`: the rule. `edit`: changes to tables, properties and fields. `body_edit`: changes to bodies.
- `name_translation`: names to the broker and back to the client. `renaming`: one new name, and its inverse.
  `name_fields`: the fields that hold names.
- `login`: the credentials sent to the broker. `tuning`: smaller limits in connection.tune.
- `substitution`: replaces the matches of a regular expression, with bounded work.
- `trace_context`: W3C Trace Context in headers.
- `redact`: the rule that hides values from records, captures and logs. `masking`: the masks of values.
- `secret`: values that are used and never shown.
"""
