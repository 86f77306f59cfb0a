"""The configuration file: read, checked, and made types.

- `config` has the types with their bounds and their JSON Schema; `config_file` reads a file into them.
- `config_document` parses TOML, YAML and JSON within bounds; `quantities` makes numbers of texts such as "200ms".
- `resources` loads the files, variables and functions that rules name.
- `hints` suggests the key or action that was perhaps meant; `source_lines` finds the line of a key, for errors.
"""
