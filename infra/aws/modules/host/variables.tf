variable "name" {
  type = string
}

variable "region" {
  type = string
}

variable "host" {
  description = "What the lab's hosts have in common; `ender` is the role that stops them."
  type = object({
    size    = string
    user    = string
    expires = string
    ender   = string
  })
}

variable "subnet_id" {
  description = "It is in one zone, and so is the host."
  type        = string
}

variable "groups" {
  description = "The security groups that guard it."
  type        = list(string)
}

variable "key" {
  description = "The name of the key pair that it lets in."
  type        = string
}

variable "ends" {
  description = "The group of schedules that its end is in."
  type        = string
}

variable "private_ip" {
  description = "Its address, so that a study's file can be written before the host is there."
  type        = string
}

variable "placement_group" {
  type    = string
  default = null
}

variable "public" {
  description = "Give it a public address: the jump host's."
  type        = bool
  default     = false
}

variable "tags" {
  type = map(string)
}
