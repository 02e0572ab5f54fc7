# What every lab has; each root has this file as a link.

terraform {
  required_version = ">= 1.8"

  required_providers {
    google = {
      source = "hashicorp/google"
      # Any 8, and no 9.
      version = "~> 8"
    }
  }
}

provider "google" {
  project = var.project
  region  = var.region
}

variable "project" {
  description = "The id of the project that everything is made in. There is no default."
  type        = string
}

variable "name" {
  description = "Begins the names of everything that is made."
  type        = string
  default     = "fathom"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,15}$", var.name))
    error_message = "Use 2 to 16 lower-case letters, digits and dashes, a letter first."
  }
}

variable "expires" {
  description = "When the lab is no longer needed, as in 2026-11-23T20:00:00Z: within a day. Hosts are stopped then."
  type        = string

  validation {
    condition     = can(formatdate("hhmm", var.expires)) && endswith(var.expires, "Z")
    error_message = "Write it in UTC, as in 2026-11-23T20:00:00Z."
  }
}

variable "ssh_public_key" {
  description = "The public key that hosts let in."
  type        = string

  validation {
    condition     = can(regex("^ssh-(rsa|ed25519) ", var.ssh_public_key))
    error_message = "Give the text of a public key, as in \"$(cat ~/.ssh/id_ed25519.pub)\"."
  }
}

variable "ssh_from" {
  description = "Whence SSH may come, as in 198.51.100.7/32. There is no default."
  type        = string

  validation {
    condition     = can(cidrnetmask(var.ssh_from)) && try(tonumber(split("/", var.ssh_from)[1]) >= 16, false)
    error_message = "Give a network of IPv4 in CIDR notation, of /16 or smaller, as in 198.51.100.7/32."
  }
}

variable "public_jump" {
  description = "Make a small host with a public address, by which SSH goes to the others. Without it nothing has one."
  type        = bool
  default     = false
}

variable "user" {
  description = "The user that SSH logs in as."
  type        = string
  default     = "fathom"
}

variable "size" {
  description = "The type of the hosts that measure, x86-64. Types with shared cores disturb long runs."
  type        = string
  default     = "n2-standard-2"
}

variable "port" {
  description = "The port that reflectors listen on."
  type        = number
  default     = 7007
}

# A warning and no error: an expired lab can be destroyed.
check "expires" {
  assert {
    condition = (
      timecmp(var.expires, plantimestamp()) > 0 &&
      timecmp(var.expires, timeadd(plantimestamp(), "24h")) <= 0
    )
    error_message = "`expires` is not within the next 24 hours."
  }
}

locals {
  # Labels have small letters, digits and dashes alone.
  labels = {
    fathom-lab     = "${var.name}-${local.lab}"
    fathom-expires = lower(replace(var.expires, ":", "-"))
  }

  host = {
    size           = var.size
    user           = var.user
    ssh_public_key = var.ssh_public_key
    expires        = var.expires
  }

  rules = {
    port       = var.port
    ssh_from   = var.ssh_from
    jump_cidr  = var.public_jump ? local.jump_cidr : null
    lab_ranges = local.lab_ranges
  }
}

module "jump" {
  source = "../modules/host"
  count  = var.public_jump ? 1 : 0

  name       = "${var.name}-jump"
  zone       = "${var.region}-${var.zones[0]}"
  kind       = "jump"
  subnet     = module.network.subnets["jump"]
  private_ip = cidrhost(local.jump_cidr, 10)
  # Nothing is measured on it.
  host   = merge(local.host, { size = "e2-micro" })
  public = true
  labels = local.labels
}

# What `fathom study from-outputs` makes a study's hosts and scenarios from.
output "fathometer" {
  value = {
    format = 1
    lab    = "${var.name}-${local.lab}"
    jump   = one([for jump in module.jump : { address = jump.public_address, user = var.user }])
    hosts  = local.hosts
    scenarios = [for scenario in local.scenarios : merge(scenario, {
      port = var.port
      tags = merge(scenario.tags, { lab = local.lab, size = var.size })
    })]
  }
}
