# What does an internal passthrough balancer add, in a zone and between two?

variable "region" {
  type    = string
  default = "europe-west2"

  validation {
    condition     = can(regex("^[a-z][a-z0-9]*(-[a-z0-9]+)*$", var.region))
    error_message = "Name a region, as in europe-west2."
  }
}

variable "zones" {
  description = "The letters of the client's, and of the other one."
  type        = list(string)
  default     = ["a", "b"]

  validation {
    condition     = length(distinct(var.zones)) == 2
    error_message = "Name two zones."
  }

  validation {
    condition     = can([for zone in var.zones : regex("^[a-z]$", zone)])
    error_message = "Give the letters of zones, as in a."
  }
}

variable "mtu" {
  description = "How large a packet of the network may be: 1300 to 8896. Google's own default is 1460."
  type        = number
  default     = 1460

  validation {
    condition     = var.mtu >= 1300 && var.mtu <= 8896 && floor(var.mtu) == var.mtu
    error_message = "Whole bytes from 1300 to 8896."
  }
}

locals {
  lab        = "balancer"
  range      = "10.97.0.0/16"
  lab_ranges = [local.range]
  jump_cidr  = "10.97.0.0/24"
  hosts_cidr = "10.97.1.0/24"

  backends = {
    same-zone  = { zone = var.zones[0], ip = cidrhost(local.hosts_cidr, 20), frontend = cidrhost(local.hosts_cidr, 100) }
    cross-zone = { zone = var.zones[1], ip = cidrhost(local.hosts_cidr, 21), frontend = cidrhost(local.hosts_cidr, 101) }
  }

  hosts = concat([module.client.host], values(module.backend)[*].host)

  # Directly and by the balancer to the same host, so that nothing but the balancer differs.
  scenarios = flatten([
    for label, backend in local.backends : [
      {
        label = label, from = "client", to = "backend-${label}", via = null, address = null
        tags  = { region = var.region, zone-from = var.zones[0], zone-to = backend.zone }
      },
      {
        label   = "${label}-lb"
        from    = "client"
        to      = "backend-${label}"
        via     = "load balancer"
        address = module.balancer[label].address
        tags    = { region = var.region, zone-from = var.zones[0], zone-to = backend.zone }
      },
    ]
  ])
}

module "network" {
  source = "../modules/network"

  name          = "${var.name}-balancer"
  mtu           = var.mtu
  rules         = local.rules
  health_checks = true

  subnets = merge(
    { hosts = { region = var.region, cidr = local.hosts_cidr } },
    var.public_jump ? { jump = { region = var.region, cidr = local.jump_cidr } } : {},
  )
}

module "client" {
  source = "../modules/host"

  name       = "client"
  zone       = "${var.region}-${var.zones[0]}"
  subnet     = module.network.subnets["hosts"]
  private_ip = cidrhost(local.hosts_cidr, 10)
  host       = local.host
  labels     = local.labels
}

module "backend" {
  source   = "../modules/host"
  for_each = local.backends

  name       = "backend-${each.key}"
  zone       = "${var.region}-${each.value.zone}"
  subnet     = module.network.subnets["hosts"]
  private_ip = each.value.ip
  host       = local.host
  labels     = local.labels
}

module "balancer" {
  source   = "../modules/balancer"
  for_each = local.backends

  name       = "${var.name}-${each.key}"
  region     = var.region
  zone       = "${var.region}-${each.value.zone}"
  network    = module.network.id
  subnet     = module.network.subnets["hosts"]
  private_ip = each.value.frontend
  backend    = module.backend[each.key].id
  port       = var.port
  labels     = local.labels
}
