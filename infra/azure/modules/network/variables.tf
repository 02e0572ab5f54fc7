variable "name" {
  type = string
}

variable "resource_group_name" {
  type = string
}

variable "location" {
  type = string
}

variable "range" {
  description = "The network's addresses, in CIDR notation."
  type        = string
}

variable "subnets" {
  description = "By name. Kinds: hosts, jump, private-link, and gateway for those that Azure names and guards itself."
  type = map(object({
    cidr = string
    kind = string
  }))

  validation {
    condition     = alltrue([for s in values(var.subnets) : contains(["hosts", "jump", "private-link", "gateway"], s.kind)])
    error_message = "A subnet is of hosts, jump, private-link or gateway."
  }
}

variable "rules" {
  description = "Who may come in: to `port` from the lab's ranges, by SSH from the jump host's subnet or else `ssh_from`."
  type = object({
    port       = number
    ssh_from   = string
    jump_cidr  = optional(string)
    lab_ranges = list(string)
  })
}

variable "routes" {
  description = "Ways other than Azure's own for what hosts send, by name."
  type = map(object({
    to               = string
    next_hop_type    = string
    next_hop_address = optional(string)
  }))
  default = {}
}

variable "tags" {
  type = map(string)
}

variable "nat_gateway" {
  description = "By which these subnets reach the Internet; none do without."
  type = object({
    id      = string
    subnets = set(string)
  })
  default = null
}
