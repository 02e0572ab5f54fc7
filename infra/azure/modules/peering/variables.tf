variable "resource_group_name" {
  type = string
}

variable "left" {
  type = object({ id = string, name = string })
}

variable "right" {
  type = object({ id = string, name = string })
}

variable "forwarded" {
  description = "Take packets that began in a third network."
  type        = bool
  default     = false
}

variable "gateway_on_left" {
  description = "The right one uses the left one's gateway, which must be there first."
  type        = bool
  default     = false
}
