variable "name" {
  type = string
}

variable "resource_group_name" {
  type = string
}

variable "service_location" {
  type = string
}

variable "service_subnet_id" {
  description = "Of kind private-link: the service's own addresses, from which its hosts see every connection come."
  type        = string
}

variable "frontend_id" {
  type = string
}

variable "endpoint_location" {
  type = string
}

variable "endpoint_subnet_id" {
  type = string
}

variable "tags" {
  type = map(string)
}
