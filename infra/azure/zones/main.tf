# What do a zone, the way between each two zones, and a region cost? (Azure Latency, Azure Latency Part 2.)

variable "region" {
  type    = string
  default = "uksouth"

  validation {
    condition     = can(regex("^[A-Za-z][A-Za-z0-9]*([ -][A-Za-z0-9]+)*$", var.region))
    error_message = "Name a region, as in uksouth."
  }
}

variable "other_region" {
  description = "Of the host that is far away; empty for none."
  type        = string
  default     = "ukwest"
  nullable    = false

  validation {
    condition     = can(regex("^([A-Za-z][A-Za-z0-9]*([ -][A-Za-z0-9]+)*)?$", var.other_region))
    error_message = "Name a region, as in uksouth, or nothing."
  }
}

variable "zones" {
  description = "The client is in the first one; each has a server."
  type        = list(string)
  default     = ["1", "2", "3"]

  validation {
    condition     = length(var.zones) > 0 && length(distinct(var.zones)) == length(var.zones)
    error_message = "Name one zone or more, each once."
  }

  validation {
    condition     = can([for zone in var.zones : regex("^[1-9]$", zone)])
    error_message = "Azure's zones are numbers, as in 1."
  }
}

locals {
  lab            = "zones"
  range          = "10.60.0.0/16"
  other_range    = "10.61.0.0/16"
  lab_ranges     = [local.range, local.other_range]
  hosts_cidr     = "10.60.1.0/24"
  jump_cidr      = "10.60.0.0/24"
  jump_subnet_id = module.network.subnets["jump"]
  far            = compact([var.other_region])
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
      label = "cross-region", from = "far", to = local.near, via = "global peering", address = null
      tags  = { region = region, region-to = var.region, zone-to = var.zones[0] }
    }],
  )
}

module "network" {
  source = "../modules/network"

  name                = "${var.name}-zones"
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.region
  range               = local.range
  rules               = local.rules
  tags                = local.tags

  subnets = {
    jump  = { cidr = local.jump_cidr, kind = "jump" }
    hosts = { cidr = local.hosts_cidr, kind = "hosts" }
  }
}

module "client" {
  source = "../modules/host"

  name                = "client"
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.region
  zone                = var.zones[0]
  subnet_id           = module.network.subnets["hosts"]
  private_ip          = cidrhost(local.hosts_cidr, 10)
  host                = local.host
  tags                = local.tags
}

module "server" {
  source   = "../modules/host"
  for_each = local.servers

  name                = each.key
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.region
  zone                = each.value.zone
  subnet_id           = module.network.subnets["hosts"]
  private_ip          = each.value.ip
  host                = local.host
  tags                = local.tags
}

module "far_network" {
  source = "../modules/network"
  count  = length(local.far)

  name                = "${var.name}-far"
  resource_group_name = azurerm_resource_group.lab.name
  location            = local.far[count.index]
  range               = local.other_range
  rules               = local.rules
  tags                = local.tags
  subnets             = { hosts = { cidr = "10.61.1.0/24", kind = "hosts" } }
}

module "far_peering" {
  source = "../modules/peering"
  count  = length(local.far)

  resource_group_name = azurerm_resource_group.lab.name
  left                = { id = module.network.id, name = module.network.name }
  right               = { id = module.far_network[count.index].id, name = module.far_network[count.index].name }
}

module "far" {
  source = "../modules/host"
  count  = length(local.far)

  name                = "far"
  resource_group_name = azurerm_resource_group.lab.name
  location            = local.far[count.index]
  subnet_id           = module.far_network[count.index].subnets["hosts"]
  private_ip          = "10.61.1.10"
  host                = local.host
  tags                = local.tags
}
