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
  description = "The hub's addresses: a /16."
  type        = string
}

variable "jump_cidr" {
  description = "The subnet of the jump host, in the hub, as every other network is joined to it."
  type        = string
}

variable "zones" {
  description = "Each spoke has a server in each; the client is in the first."
  type        = list(string)
}

variable "spokes" {
  description = "Each spoke's addresses (a /16), by the way that leads to it: peering, vpn or firewall."
  type        = map(string)

  validation {
    condition     = length(setsubtract(keys(var.spokes), ["peering", "vpn", "firewall"])) == 0
    error_message = "The ways are peering, vpn and firewall."
  }
}

variable "client" {
  description = "The network that the client is in. Its hosts are to send by the output `routes`."
  type        = object({ id = string, name = string, range = string })
}

variable "firewall" {
  type = object({
    tier                = string
    rules_before        = number
    intrusion_detection = string
  })
}

variable "rules" {
  description = "Who may come in, as of a network."
  type = object({
    port       = number
    ssh_from   = string
    jump_cidr  = optional(string)
    lab_ranges = list(string)
  })
}

variable "host" {
  description = "What the lab's hosts have in common."
  type = object({
    size           = string
    user           = string
    ssh_public_key = string
    expires        = string
  })
}

variable "tags" {
  type = map(string)
}
