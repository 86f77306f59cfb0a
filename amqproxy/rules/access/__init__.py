"""Allow and refuse.

- `allow`: lets a command pass without asking later rules.
- `refuse`: refuses it in the way that the protocol has for each method.
- `acl`: an access list, compiled to rules that allow and refuse. `access_list`: its lines, parsed.
"""
