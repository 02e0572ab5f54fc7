variable "name" {
  type = string
}

variable "region" {
  type = string
}

variable "zone" {
  description = "The host's."
  type        = string
}

variable "network" {
  type = string
}

variable "subnet" {
  type = string
}

variable "private_ip" {
  description = "The balancer's address."
  type        = string
}

variable "backend" {
  description = "The host."
  type        = string
}

variable "port" {
  type = number
}

variable "labels" {
  type = map(string)
}
