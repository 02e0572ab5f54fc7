variable "name" {
  type = string
}

variable "resource_group_name" {
  type = string
}

variable "location" {
  type = string
}

variable "rows" {
  description = "What each pair of hosts has. No zones: Azure has availability sets only without them."
  type = map(object({
    accelerated_networking = bool
    proximity_group        = bool
    availability_set       = bool
    mtu                    = optional(number, 1500)
  }))
}

variable "subnet_id" {
  type = string
}

variable "cidr" {
  description = "The subnet's addresses. Pairs have them from the eleventh on."
  type        = string
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
