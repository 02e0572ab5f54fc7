"""``fathom cloud``: makes a lab of ``infra/`` in a subscription, measures on it by a study, and removes it.

OpenTofu or Terraform makes and removes the lab. The clouds' own commands list what is left of it.
"""
