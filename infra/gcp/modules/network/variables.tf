variable "name" {
  type = string
}

variable "mtu" {
  type = number
}

variable "subnets" {
  description = "By name; the one named jump has a way to the Internet, for the host that bears its tag."
  type = map(object({
    region = string
    cidr   = string
  }))
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

variable "health_checks" {
  description = "Let in Google's own, for a balancer."
  type        = bool
  default     = false
}
