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
  type = string
}

variable "private_ip" {
  description = "The frontend's address."
  type        = string
}

variable "zones" {
  description = "Where the frontend is: one zone, or all for one that outlives any; null where the region has none."
  type        = list(string)
  default     = null
}

variable "backends" {
  description = "The hosts' network interfaces, by the hosts' names."
  type        = map(string)
}

variable "port" {
  type = number
}

variable "idle_timeout_minutes" {
  description = "After so long without a packet it forgets a connection: 4 to 100."
  type        = number
  default     = 4
}

variable "tcp_reset" {
  description = "Tell both ends when it forgets one. Azure's own default is to say nothing."
  type        = bool
  default     = false
}

variable "tags" {
  type = map(string)
}
