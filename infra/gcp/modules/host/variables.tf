variable "name" {
  type = string
}

variable "zone" {
  description = "As in europe-west2-a."
  type        = string
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

variable "kind" {
  description = "Which rules hold for it: hosts or jump."
  type        = string
  default     = "hosts"
}

variable "subnet" {
  type = string
}

variable "private_ip" {
  description = "Its address, so that a study's file can be written before the host is there."
  type        = string
}

variable "public" {
  description = "Give it a public address: the jump host's."
  type        = bool
  default     = false
}

variable "labels" {
  type = map(string)
}
