"""Foundation of the compiled modules, and the choice of each module's compiled or plain form.

- `_pure` chooses the form of each module when it is imported; `_cython` stands in for Cython where it is missing.
- `byte_access` reads and writes numbers in bytes.
- `decode_cache` keeps what was decoded, by its bytes; `struct_slots` finds the fields of a msgspec struct.
"""
