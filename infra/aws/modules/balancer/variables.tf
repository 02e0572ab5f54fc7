variable "name" {
  type = string
}

variable "region" {
  type = string
}

variable "network_id" {
  type = string
}

variable "subnet_id" {
  description = "Where its node is."
  type        = string
}

variable "groups" {
  description = "The security groups that guard it."
  type        = list(string)
}

variable "private_ip" {
  description = "The node's address."
  type        = string
}

variable "backends" {
  description = "The hosts' ids, by their names."
  type        = map(string)
}

variable "port" {
  type = number
}

variable "idle_timeout_seconds" {
  description = "After so long without a packet it forgets a connection, and says nothing: 60 to 6000."
  type        = number
  default     = 350
}

variable "tags" {
  type = map(string)
}
