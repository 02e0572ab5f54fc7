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

  validation {
    condition     = can(regex("^[a-z][a-z0-9:.-]+$", var.project))
    error_message = "Give the id of a project, as in my-project-123."
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

variable "user" {
  description = "The user that SSH logs in as."
  type        = string
  default     = "fathom"

  validation {
    condition     = can(regex("^[a-z_][a-z0-9_-]{0,31}$", var.user))
    error_message = "Use up to 32 small letters, digits, - and _, a letter first."
  }
}

variable "size" {
  description = "The type of the hosts that measure, x86-64. Types with shared cores disturb long runs."
  type        = string
  default     = "n2-standard-2"

  validation {
    condition     = can(regex("^[A-Za-z][A-Za-z0-9._-]*$", var.size))
    error_message = "Name a size, as n2-standard-2."
  }
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
