# What does a Network Load Balancer add, in a zone and between two?

variable "region" {
  type    = string
  default = "eu-west-2"

  validation {
    condition     = can(regex("^[a-z][a-z0-9]*(-[a-z0-9]+)*$", var.region))
    error_message = "Name a region, as in eu-west-2."
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

variable "idle_timeout_seconds" {
  description = "After so long without a packet the balancers forget a connection: 60 to 6000."
  type        = number
  default     = 350

  validation {
    condition     = var.idle_timeout_seconds >= 60 && var.idle_timeout_seconds <= 6000 && floor(var.idle_timeout_seconds) == var.idle_timeout_seconds
    error_message = "Whole seconds from 60 to 6000."
  }
}

locals {
  lab        = "balancer"
  range      = "10.92.0.0/16"
  lab_ranges = [local.range]
  jump_cidr  = "10.92.0.0/24"
  # A subnet is in one zone alone.
  zones = { for index, zone in var.zones : zone => cidrsubnet(local.range, 8, 1 + index) }

  # The node of either balancer is in the client's zone.
  near = local.zones[var.zones[0]]
  backends = {
    same-zone  = { zone = var.zones[0], ip = cidrhost(local.near, 20), frontend = cidrhost(local.near, 100) }
    cross-zone = { zone = var.zones[1], ip = cidrhost(local.zones[var.zones[1]], 20), frontend = cidrhost(local.near, 101) }
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
        tags = {
          region               = var.region, zone-from = var.zones[0], zone-to = backend.zone
          idle-timeout-seconds = tostring(var.idle_timeout_seconds)
        }
      },
    ]
  ])
}

module "network" {
  source = "../modules/network"

  name           = "${var.name}-balancer"
  region         = var.region
  range          = local.range
  zones          = local.zones
  jump           = var.public_jump ? { zone = var.zones[0], cidr = local.jump_cidr } : null
  rules          = local.rules
  ssh_public_key = var.ssh_public_key
  tags           = local.tags
}

module "client" {
  source = "../modules/host"

  name       = "client"
  region     = var.region
  subnet_id  = module.network.subnets[var.zones[0]]
  groups     = module.network.groups
  key        = module.network.key
  ends       = module.network.ends
  private_ip = cidrhost(local.near, 10)
  host       = local.host
  tags       = local.tags
}

module "backend" {
  source   = "../modules/host"
  for_each = local.backends

  name       = "backend-${each.key}"
  region     = var.region
  subnet_id  = module.network.subnets[each.value.zone]
  groups     = module.network.groups
  key        = module.network.key
  ends       = module.network.ends
  private_ip = each.value.ip
  host       = local.host
  tags       = local.tags
}

module "balancer" {
  source   = "../modules/balancer"
  for_each = local.backends

  name                 = "${var.name}-${each.key}"
  region               = var.region
  network_id           = module.network.id
  subnet_id            = module.network.subnets[var.zones[0]]
  groups               = module.network.groups
  private_ip           = each.value.frontend
  backends             = { (each.key) = module.backend[each.key].id }
  port                 = var.port
  idle_timeout_seconds = var.idle_timeout_seconds
  tags                 = local.tags
}
