"""Change commands on their way, and what records show of them.

- `rewrite`: the rule. `edit`: changes to tables, properties and fields. `body_edit`: changes to bodies.
- `renaming`: new names for exchanges and queues, and the way back. `name_fields`: the fields that hold such names.
- `login`: the credentials that the broker gets. `tuning`: smaller limits in connection.tune.
- `substitution`: replaces what a regular expression matches, with bounded work.
- `trace_context`: W3C Trace Context in headers.
- `redact`: the rule that hides values from records, captures and logs. `masking`: how a value is masked.
- `secret`: values that are used and never shown.
"""
