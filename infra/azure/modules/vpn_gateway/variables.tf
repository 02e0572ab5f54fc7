variable "name" {
  type = string
}

variable "resource_group_name" {
  type = string
}

variable "location" {
  type = string
}

variable "subnet_id" {
  description = "Of a subnet that is called GatewaySubnet."
  type        = string
}

variable "size" {
  type    = string
  default = "VpnGw1AZ"

  validation {
    condition     = can(regex("^VpnGw[1-5]AZ$", var.size))
    error_message = "VpnGw1AZ to VpnGw5AZ; those without AZ are no longer made."
  }
}

variable "zones" {
  type    = list(string)
  default = null
}

variable "tags" {
  type = map(string)
}
