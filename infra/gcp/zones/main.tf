# What do a zone, the way between each two zones, and a region cost?

variable "region" {
  type    = string
  default = "europe-west2"

  validation {
    condition     = can(regex("^[a-z][a-z0-9]*(-[a-z0-9]+)*$", var.region))
    error_message = "Name a region, as in europe-west2."
  }
}

variable "other_region" {
  description = "Of the host that is far away; empty for none."
  type        = string
  default     = "europe-west1"
  nullable    = false

  validation {
    condition     = can(regex("^([a-z][a-z0-9]*(-[a-z0-9]+)*)?$", var.other_region))
    error_message = "Name a region, as in europe-west2, or nothing."
  }
}

variable "other_zone" {
  description = "The letter of its zone."
  type        = string
  default     = "b"

  validation {
    condition     = can(regex("^[a-z]$", var.other_zone))
    error_message = "Google's zones are letters, as in b."
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
  lab         = "zones"
  range       = "10.95.0.0/16"
  other_range = "10.96.0.0/16"
  lab_ranges  = [local.range, local.other_range]
  jump_cidr   = "10.95.0.0/24"
  far         = compact([var.other_region])
  hosts_cidr  = "10.95.1.0/24"
  servers = {
    for index, zone in var.zones : "server-zone-${zone}" => { zone = zone, ip = cidrhost(local.hosts_cidr, 20 + index) }
  }
  near = "server-zone-${var.zones[0]}"

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
      label = "cross-region", from = "far", to = local.near, via = null, address = null
      tags  = { region = region, region-to = var.region, zone-to = var.zones[0] }
    }],
  )
}

# One network for all regions: what is far away is a subnet of it.
module "network" {
  source = "../modules/network"

  name  = "${var.name}-zones"
  mtu   = var.mtu
  rules = local.rules

  subnets = merge(
    { hosts = { region = var.region, cidr = local.hosts_cidr } },
    var.public_jump ? { jump = { region = var.region, cidr = local.jump_cidr } } : {},
    { for region in local.far : "far" => { region = region, cidr = "10.96.1.0/24" } },
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

module "server" {
  source   = "../modules/host"
  for_each = local.servers

  name       = each.key
  zone       = "${var.region}-${each.value.zone}"
  subnet     = module.network.subnets["hosts"]
  private_ip = each.value.ip
  host       = local.host
  labels     = local.labels
}

module "far" {
  source = "../modules/host"
  count  = length(local.far)

  name       = "far"
  zone       = "${local.far[count.index]}-${var.other_zone}"
  subnet     = module.network.subnets["far"]
  private_ip = "10.96.1.10"
  host       = local.host
  labels     = local.labels
}
