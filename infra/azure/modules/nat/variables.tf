variable "name" {
  type = string
}

variable "resource_group_name" {
  type = string
}

variable "location" {
  type = string
}

variable "idle_timeout_minutes" {
  description = "After so long without a packet it forgets a connection: 4 to 120."
  type        = number
  default     = 4

  validation {
    condition     = var.idle_timeout_minutes >= 4 && var.idle_timeout_minutes <= 120 && floor(var.idle_timeout_minutes) == var.idle_timeout_minutes
    error_message = "Whole minutes from 4 to 120."
  }
}

variable "tags" {
  type = map(string)
}
