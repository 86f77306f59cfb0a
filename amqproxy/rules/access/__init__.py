"""Access lists, and the actions allow and refuse.

- `allow`: passes a command without evaluating later rules.
- `refuse`: refuses a command in the way that the protocol provides for its method.
- `acl`: an access list, compiled to rules that allow and refuse. `access_list`: the parser of its lines.
"""
