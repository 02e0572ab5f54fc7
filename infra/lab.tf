# What a lab of any cloud takes, and whom its hosts let in. Each root has this file as a link.

variable "name" {
  description = "Begins the names of everything that is made."
  type        = string
  default     = "fathom"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,15}$", var.name))
    error_message = "Use 2 to 16 lower-case letters, digits and dashes, a letter first."
  }
}

variable "ssh_public_key" {
  description = "The public key that hosts let in."
  type        = string

  validation {
    condition     = can(regex("^ssh-(rsa|ed25519) ", var.ssh_public_key))
    error_message = "Give the text of a public key, as in \"$(cat ~/.ssh/id_ed25519.pub)\"."
  }
}

variable "ssh_from" {
  description = "Whence SSH may come, as in 198.51.100.7/32. There is no default."
  type        = string

  validation {
    # The tool's own functions take 010.0.0.1 and /032, too, which a cloud refuses, or reads as another network.
    condition = can(cidrnetmask(var.ssh_from)) && can(regex(
      "^(0|[1-9][0-9]{0,2})([.](0|[1-9][0-9]{0,2})){3}/(1[6-9]|2[0-9]|3[0-2])$", var.ssh_from
    ))
    error_message = "Give a network of IPv4 in CIDR notation, of /16 or smaller, as in 198.51.100.7/32."
  }
}

variable "public_jump" {
  description = "Make a small host with a public address, by which SSH goes to the others. Without it nothing has one."
  type        = bool
  default     = false
}

variable "port" {
  description = "The port that reflectors listen on."
  type        = number
  default     = 7007

  validation {
    condition     = var.port >= 1 && var.port <= 65535 && floor(var.port) == var.port
    error_message = "Give a port, 1 to 65535."
  }

  validation {
    condition     = var.port != 22
    error_message = "Port 22 is SSH's, by which hosts are reached: give another, as 7007."
  }
}

locals {
  rules = {
    port       = var.port
    ssh_from   = var.ssh_from
    jump_cidr  = var.public_jump ? local.jump_cidr : null
    lab_ranges = local.lab_ranges
  }
}
