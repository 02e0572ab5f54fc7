"""``fathom cloud``: a lab of ``infra/`` made in a subscription, measured by a study, and removed.

OpenTofu or Terraform does it. Besides, the clouds' own commands list what is left of it.
"""
