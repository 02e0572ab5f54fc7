variable "name" {
  type = string
}

variable "region" {
  type = string
}

variable "range" {
  description = "The network's addresses, in CIDR notation."
  type        = string
}

variable "zones" {
  description = "The hosts' subnets: a zone's letter, and its addresses."
  type        = map(string)
}

variable "jump" {
  description = "Where the jump host's subnet is; null for none, and then nothing leads to the Internet."
  type = object({
    zone = string
    cidr = string
  })
  default = null
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

variable "ssh_public_key" {
  type = string
}

variable "tags" {
  type = map(string)
}
