"""Changes of the integrated broker that its management API asks for, on behalf of a user (an `Actor`).

`any_change` lists them all, and tells the broker's refusals; the others are by subject. A binding is named by its
`binding_key`.
"""
