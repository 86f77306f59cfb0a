"""Authentication, permissions and limits.

- `users`: names, password hashes, tags, and the permissions of each user.
- `token_user`, `token_scopes`: users of OAuth 2 tokens, whose scopes are their tags and permissions.
- `permissions`: patterns of names for each virtual host, and of routing keys for topic exchanges.
- `limits`: the limits of virtual hosts and of users.
- `quotas`: bounds for a user's objects that outlive connections, in each virtual host.
- `sasl`: RabbitMQ's authentication mechanisms.
- `refused_logins`: connections whose login was refused, kept open for a while to slow down guessing.
"""
