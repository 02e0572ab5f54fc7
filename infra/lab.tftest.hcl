# `terraform test` in any root: what its output says holds together. Each root has this file as a link. It only plans: with
# a real provider nothing is made either.

variables {
  ssh_from       = "198.51.100.7/32"
  ssh_public_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGm0mWmWmWmWmWmWmWmWmWmWmWmWmWmWmWmWmWmWmWmW lab"
  expires        = timeadd(timestamp(), "4h")
  project        = "a-project"
}

# One plan for all that is true of the lab as it is by default: a plan of the largest takes a second.
run "nothing_public_unless_asked_and_paths_between_hosts_of_the_lab" {
  command = plan

  assert {
    condition     = output.fathometer.jump == null
    error_message = "There is a jump host that nobody asked for."
  }

  assert {
    condition = alltrue([
      for s in output.fathometer.scenarios : alltrue([for end in [s.from, s.to] : contains(output.fathometer.hosts[*].name, end)])
    ])
    error_message = "A path begins or ends at a host that the lab does not have."
  }

  assert {
    condition     = length(distinct(output.fathometer.scenarios[*].label)) == length(output.fathometer.scenarios)
    error_message = "Two paths have one label."
  }

  assert {
    condition     = length(distinct(output.fathometer.hosts[*].address)) == length(output.fathometer.hosts)
    error_message = "Two hosts have one address."
  }
}

run "a_jump_host_if_asked" {
  command = plan

  variables {
    public_jump = true
  }

  assert {
    condition     = output.fathometer.jump.user == var.user
    error_message = "SSH has no way in."
  }
}
