# What do a zone, the way between each two zones, and a region cost?

variable "region" {
  type    = string
  default = "eu-west-2"

  validation {
    condition     = can(regex("^[a-z][a-z0-9]*(-[a-z0-9]+)*$", var.region))
    error_message = "Name a region, as in eu-west-2."
  }
}

variable "other_region" {
  description = "Of the host that is far away; empty for none."
  type        = string
  default     = "eu-west-1"
  nullable    = false

  validation {
    condition     = can(regex("^([a-z][a-z0-9]*(-[a-z0-9]+)*)?$", var.other_region))
    error_message = "Name a region, as in eu-west-2, or nothing."
  }
}

variable "zones" {
  description = "Their letters. The client is in the first one; each has a server."
  type        = list(string)
  default     = ["a", "b", "c"]

  validation {
    condition     = length(var.zones) > 0 && length(distinct(var.zones)) == length(var.zones)
    error_message = "Name one zone or more, each once."
  }

  validation {
    condition     = can([for zone in var.zones : regex("^[a-z]$", zone)])
    error_message = "Give the letters of zones, as in a."
  }
}

locals {
  lab         = "zones"
  range       = "10.90.0.0/16"
  other_range = "10.91.0.0/16"
  lab_ranges  = [local.range, local.other_range]
  jump_cidr   = "10.90.0.0/24"
  far         = compact([var.other_region])
  # A subnet is in one zone alone.
  zones   = { for index, zone in var.zones : zone => cidrsubnet(local.range, 8, 1 + index) }
  servers = { for zone, cidr in local.zones : "server-zone-${zone}" => { zone = zone, ip = cidrhost(cidr, 20) } }
  near    = "server-zone-${var.zones[0]}"

  # The way between the first zone and the last is measured from the last, and so each zone has a host that probes and says
  # in which physical zone it is. A round trip goes both ways.
  last = var.zones[length(var.zones) - 1]
  pairs = flatten([
    for index, zone in var.zones : [
      for other in slice(var.zones, index + 1, length(var.zones)) : {
        from = zone
        to   = other
        back = length(var.zones) > 2 && zone == var.zones[0] && other == local.last
      }
    ]
  ])

  hosts = concat([module.client.host], values(module.server)[*].host, module.far[*].host)

  scenarios = concat(
    [
      {
        label = "same-host", from = "client", to = "client", via = null, address = null
        tags  = { region = var.region, zone-from = var.zones[0], zone-to = var.zones[0] }
      },
      {
        label = "same-zone", from = "client", to = local.near, via = null, address = null
        tags  = { region = var.region, zone-from = var.zones[0], zone-to = var.zones[0] }
      },
    ],
    [for pair in local.pairs : {
      label   = "cross-zone-${pair.from}-${pair.to}"
      from    = pair.back ? "server-zone-${pair.to}" : pair.from == var.zones[0] ? "client" : "server-zone-${pair.from}"
      to      = pair.back ? local.near : "server-zone-${pair.to}"
      via     = null
      address = null
      tags = {
        region    = var.region
        zone-from = pair.back ? pair.to : pair.from
        zone-to   = pair.back ? pair.from : pair.to
      }
    }],
    [for region in local.far : {
      label = "cross-region", from = "far", to = local.near, via = "peering", address = null
      tags  = { region = region, region-to = var.region, zone-to = var.zones[0] }
    }],
  )
}

module "network" {
  source = "../modules/network"

  name           = "${var.name}-zones"
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
  private_ip = cidrhost(local.zones[var.zones[0]], 10)
  host       = local.host
  tags       = local.tags
}

module "server" {
  source   = "../modules/host"
  for_each = local.servers

  name       = each.key
  region     = var.region
  subnet_id  = module.network.subnets[each.value.zone]
  groups     = module.network.groups
  key        = module.network.key
  ends       = module.network.ends
  private_ip = each.value.ip
  host       = local.host
  tags       = local.tags
}

module "far_network" {
  source = "../modules/network"
  count  = length(local.far)

  name           = "${var.name}-far"
  region         = local.far[count.index]
  range          = local.other_range
  zones          = { a = "10.91.1.0/24" }
  rules          = local.rules
  ssh_public_key = var.ssh_public_key
  tags           = local.tags
}

module "far_peering" {
  source = "../modules/peering"
  count  = length(local.far)

  left = {
    id = module.network.id, region = var.region, range = module.network.range
    # Who logs in at the jump host goes on to the far one.
    route_tables = { for name, table in module.network.route_tables : name => table if name != "jump" || var.public_jump }
  }
  right = {
    id           = module.far_network[count.index].id, region = local.far[count.index]
    range        = module.far_network[count.index].range
    route_tables = { hosts = module.far_network[count.index].route_tables.hosts }
  }
  tags = local.tags
}

module "far" {
  source = "../modules/host"
  count  = length(local.far)

  name       = "far"
  region     = local.far[count.index]
  subnet_id  = module.far_network[count.index].subnets["a"]
  groups     = module.far_network[count.index].groups
  key        = module.far_network[count.index].key
  ends       = module.far_network[count.index].ends
  private_ip = "10.91.1.10"
  host       = local.host
  tags       = local.tags
}
