variable "name" {
  type = string
}

variable "resource_group_name" {
  type = string
}

variable "location" {
  type = string
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

variable "subnet_id" {
  type = string
}

variable "private_ip" {
  description = "Its address, so that a study's file can be written before the host is there."
  type        = string
}

variable "zone" {
  description = "1, 2 or 3, as this subscription numbers them; null where the region has none."
  type        = string
  default     = null
}

variable "accelerated_networking" {
  type    = bool
  default = true
}

variable "proximity_placement_group_id" {
  type    = string
  default = null
}

variable "availability_set_id" {
  description = "Not together with a zone."
  type        = string
  default     = null
}

variable "dedicated_host_id" {
  type    = string
  default = null
}

variable "mtu" {
  description = "The largest packet, in bytes; null leaves Azure's 1500. Larger ones stay within a network, and not every size takes them."
  type        = number
  default     = null

  validation {
    condition     = var.mtu == null ? true : var.mtu >= 1280 && var.mtu <= 9000 && floor(var.mtu) == var.mtu
    error_message = "Whole bytes from 1280 to 9000."
  }
}

variable "public" {
  description = "Give it a public address: the jump host's."
  type        = bool
  default     = false
}

variable "image" {
  type = object({
    publisher = string
    offer     = string
    sku       = string
  })
  default = {
    publisher = "Canonical"
    offer     = "ubuntu-24_04-lts"
    sku       = "server"
  }
}

variable "tags" {
  type = map(string)
}
