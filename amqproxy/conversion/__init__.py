"""Conversion of the protocols to the common model of queues, disks and rules, which is 0-9-1's.

- `client_name`: the connection name that clients set.
- `view_fields`: parts of the 0-9-1 views of other protocols that no 0-9-1 peer sends.
- `inexpressible`: the error for changes that a protocol cannot express.

Each other protocol has its folder. What a protocol lacks is converted to the nearest thing that it has. No input or
output; imports the protocols.
"""
