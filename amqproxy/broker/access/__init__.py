"""Who may do what: authentication, permissions and limits.

- `users`: names, password hashes, tags, and the permissions of each user.
- `permissions`: patterns of names for each virtual host, and of routing keys for topic exchanges.
- `limits`: the limits of virtual hosts and of users.
- `quotas`: what a user may have in a virtual host that outlives its connections.
- `sasl`: the authentication mechanisms that RabbitMQ has.
- `refused_logins`: connections whose login was refused, kept open for a while to slow down guessing.
"""
