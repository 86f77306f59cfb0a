"""The configuration file: read, checked, and converted to types.

- `config` has the types, with those of `tls_config`, `login_config` and `upstream_config`, and `values` those of single
  values. `config_file` reads a file into them; `schema` is their JSON Schema.
- `environment` derives the variables that set keys, and applies them.
- `config_document` parses TOML, YAML and JSON within bounds; `quantities` converts texts such as "200ms" to numbers.
- `resources` loads the files, variables and functions that rules name.
- `users_file` reads the users of a login, `extras` finds optional packages that are missing.
- `hints` suggests the intended key or action; `source_lines` finds the line of a key, for errors.
"""
