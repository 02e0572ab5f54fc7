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
  description = "Of a subnet that is called AzureFirewallSubnet."
  type        = string
}

variable "tier" {
  type    = string
  default = "Standard"

  validation {
    condition     = contains(["Standard", "Premium"], var.tier)
    error_message = "Standard or Premium."
  }
}

variable "zones" {
  type    = list(string)
  default = null
}

variable "rules_before" {
  description = "How many rules that match nothing come before the one that lets the test pass."
  type        = number
  default     = 0

  validation {
    condition     = var.rules_before >= 0 && var.rules_before <= 10000 && floor(var.rules_before) == var.rules_before
    error_message = "A whole number from 0 to 10000."
  }
}

variable "threat_intelligence" {
  type    = string
  default = "Off"
}

variable "intrusion_detection" {
  description = "Of a Premium firewall: Off, Alert or Deny."
  type        = string
  default     = "Off"
}

variable "port" {
  type = number
}

variable "lab_ranges" {
  type = list(string)
}

variable "tags" {
  type = map(string)
}
