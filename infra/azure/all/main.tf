# What do a zone, a region, a balancer, a hub, an ocean and a host's placement cost, all from one client? (Every path that was
# published: the roots beside this one, with the hosts shared that they have in common. Not `nat`, which nobody published.)

variable "region" {
  type    = string
  default = "uksouth"

  validation {
    condition     = can(regex("^[A-Za-z][A-Za-z0-9]*([ -][A-Za-z0-9]+)*$", var.region))
    error_message = "Name a region, as in uksouth."
  }
}

variable "near_region" {
  description = "Whence a host probes into `region`."
  type        = string
  default     = "ukwest"

  validation {
    condition     = can(regex("^[A-Za-z][A-Za-z0-9]*([ -][A-Za-z0-9]+)*$", var.near_region))
    error_message = "Name a region, as in uksouth."
  }
}

variable "far_region" {
  description = "Of the server beyond the ocean, to which three ways lead."
  type        = string
  default     = "westus"

  validation {
    condition     = can(regex("^[A-Za-z][A-Za-z0-9]*([ -][A-Za-z0-9]+)*$", var.far_region))
    error_message = "Name a region, as in uksouth."
  }
}

variable "zones" {
  description = "The client is in the first one; balancers are in the first two."
  type        = list(string)
  default     = ["1", "2", "3"]

  validation {
    condition     = length(var.zones) > 1 && length(distinct(var.zones)) == length(var.zones)
    error_message = "Name two zones or more, each once."
  }

  validation {
    condition     = can([for zone in var.zones : regex("^[1-9]$", zone)])
    error_message = "Azure's zones are numbers, as in 1."
  }
}

variable "firewall_tier" {
  type    = string
  default = "Standard"
}

locals {
  lab            = "all"
  hub_range      = "10.70.0.0/16"
  jump_cidr      = "10.70.0.0/24"
  jump_subnet_id = module.hub.jump_subnet_id
  range          = "10.60.0.0/16"
  near_range     = "10.61.0.0/16"
  far_range      = "10.64.0.0/16"
  spokes         = { peering = "10.72.0.0/16", vpn = "10.73.0.0/16", firewall = "10.74.0.0/16" }
  lab_ranges     = concat([local.hub_range, local.range, local.near_range, local.far_range], values(local.spokes))

  hosts_cidr = "10.60.1.0/24"
  pairs_cidr = "10.60.2.0/24"
  far_cidr   = "10.64.1.0/24"

  near = "server-zone-${var.zones[0]}"
  servers = merge(
    { for index, zone in var.zones : "server-zone-${zone}" => { zone = zone, ip = cidrhost(local.hosts_cidr, 20 + index), group = false } },
    # In the client's proximity group, as it was published of the hub's network.
    { server-group = { zone = var.zones[0], ip = cidrhost(local.hosts_cidr, 30), group = true } },
  )
  balanced = {
    same-zone-lb  = { zone = var.zones[0], frontend = cidrhost(local.hosts_cidr, 100) }
    cross-zone-lb = { zone = var.zones[1], frontend = cidrhost(local.hosts_cidr, 101) }
  }

  hosts = concat(
    [module.client.host], values(module.server)[*].host, [module.near.host, module.far.host], module.hub.hosts, module.pairs.hosts,
  )

  far_tags = { region = var.region, region-to = var.far_region, zone-from = var.zones[0] }

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
      {
        label = "same-zone-group", from = "client", to = "server-group", via = null, address = null
        tags  = { region = var.region, zone-from = var.zones[0], zone-to = var.zones[0], placement = "proximity-group" }
      },
    ],
    [for zone in slice(var.zones, 1, length(var.zones)) : {
      label = "cross-zone-${var.zones[0]}-${zone}", from = "client", to = "server-zone-${zone}", via = null, address = null
      tags  = { region = var.region, zone-from = var.zones[0], zone-to = zone }
    }],
    [for label, balanced in local.balanced : {
      label   = label, from = "client", to = "server-zone-${balanced.zone}", via = "load balancer"
      address = module.balancer[label].address
      tags    = { region = var.region, zone-from = var.zones[0], zone-to = balanced.zone }
    }],
    [
      {
        label = "cross-region", from = "near", to = local.near, via = "global peering", address = null
        tags  = { region = var.near_region, region-to = var.region, zone-to = var.zones[0] }
      },
      {
        label = "transatlantic-peering", from = "client", to = "far", via = "global peering", address = null
        tags  = local.far_tags
      },
      {
        label   = "transatlantic-lb", from = "client", to = "far", via = "load balancer"
        address = module.far_balancer.address, tags = local.far_tags
      },
      {
        label   = "transatlantic-private-endpoint", from = "client", to = "far", via = "private endpoint"
        address = module.private_link.address, tags = local.far_tags
      },
    ],
    module.hub.scenarios,
    module.pairs.scenarios,
  )
}

module "network" {
  source = "../modules/network"

  name                = "${var.name}-client"
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.region
  range               = local.range
  rules               = local.rules
  routes              = module.hub.routes
  tags                = local.tags

  subnets = {
    hosts = { cidr = local.hosts_cidr, kind = "hosts" }
    pairs = { cidr = local.pairs_cidr, kind = "hosts" }
  }
}

resource "azurerm_proximity_placement_group" "near" {
  name                = "${var.name}-near"
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.region
  # With a zone Azure wants to know what it will hold.
  zone             = var.zones[0]
  allowed_vm_sizes = [var.size]
  tags             = local.tags
}

module "client" {
  source = "../modules/host"

  name                         = "client"
  resource_group_name          = azurerm_resource_group.lab.name
  location                     = var.region
  zone                         = var.zones[0]
  subnet_id                    = module.network.subnets["hosts"]
  private_ip                   = cidrhost(local.hosts_cidr, 10)
  proximity_placement_group_id = azurerm_proximity_placement_group.near.id
  host                         = local.host
  tags                         = local.tags
}

module "server" {
  source   = "../modules/host"
  for_each = local.servers

  name                         = each.key
  resource_group_name          = azurerm_resource_group.lab.name
  location                     = var.region
  zone                         = each.value.zone
  subnet_id                    = module.network.subnets["hosts"]
  private_ip                   = each.value.ip
  proximity_placement_group_id = each.value.group ? azurerm_proximity_placement_group.near.id : null
  host                         = local.host
  tags                         = local.tags
}

module "balancer" {
  source   = "../modules/balancer"
  for_each = local.balanced

  name                = "${var.name}-${each.key}"
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.region
  subnet_id           = module.network.subnets["hosts"]
  private_ip          = each.value.frontend
  zones               = [each.value.zone]
  backends            = { "server-zone-${each.value.zone}" = module.server["server-zone-${each.value.zone}"].interface_id }
  port                = var.port
  tags                = local.tags
}

module "hub" {
  source = "../modules/hub"

  name                = var.name
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.region
  range               = local.hub_range
  jump_cidr           = local.jump_cidr
  zones               = var.zones
  spokes              = local.spokes
  client              = { id = module.network.id, name = module.network.name, range = local.range }
  firewall            = { tier = var.firewall_tier, rules_before = 0, intrusion_detection = "Off" }
  rules               = local.rules
  host                = local.host
  tags                = local.tags
}

module "pairs" {
  source = "../modules/pairs"

  name                = var.name
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.region
  subnet_id           = module.network.subnets["pairs"]
  cidr                = local.pairs_cidr
  host                = local.host
  tags                = local.tags

  rows = {
    an-off      = { accelerated_networking = false, proximity_group = false, availability_set = false }
    an-on       = { accelerated_networking = true, proximity_group = false, availability_set = false }
    an-on-group = { accelerated_networking = true, proximity_group = true, availability_set = false }
  }
}
