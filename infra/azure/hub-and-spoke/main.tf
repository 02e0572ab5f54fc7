# What does a hub add, by zone: none, peering, a VPN gateway, a firewall? (Azure hub and spoke playground.)

variable "region" {
  type    = string
  default = "westeurope"

  validation {
    condition     = can(regex("^[A-Za-z][A-Za-z0-9]*([ -][A-Za-z0-9]+)*$", var.region))
    error_message = "Name a region, as in uksouth."
  }
}

variable "zones" {
  description = "The client is in the first one; each way has a server in each."
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

variable "ways" {
  description = "Of same-network, peering, vpn and firewall. Each server is two processors of the region's quota."
  type        = set(string)
  default     = ["same-network", "peering", "vpn", "firewall"]

  validation {
    condition = (
      length(var.ways) > 0 &&
      length(setsubtract(var.ways, ["same-network", "peering", "vpn", "firewall"])) == 0
    )
    error_message = "Name one way or more of same-network, peering, vpn and firewall."
  }
}

variable "firewall_tier" {
  type    = string
  default = "Standard"
}

variable "firewall_rules_before" {
  description = "How many rules that match nothing the firewall looks at first."
  type        = number
  default     = 0
}

variable "firewall_intrusion_detection" {
  description = "Of a Premium firewall: Off, Alert or Deny."
  type        = string
  default     = "Off"
}

locals {
  lab            = "hub-and-spoke"
  hub_range      = "10.70.0.0/16"
  jump_cidr      = "10.70.0.0/24"
  jump_subnet_id = module.hub.jump_subnet_id
  lab_ranges     = concat([local.hub_range, local.client_range], values(local.spokes))

  client_range = "10.71.0.0/16"
  client_cidr  = "10.71.1.0/24"
  spokes = {
    for way, range in { peering = "10.72.0.0/16", vpn = "10.73.0.0/16", firewall = "10.74.0.0/16" } :
    way => range if contains(var.ways, way)
  }

  # Beside the client.
  servers = {
    for index, zone in var.zones : "same-network-zone-${zone}" => {
      zone = zone
      ip   = cidrhost(local.client_cidr, 20 + index)
      # As published: the one in the client's zone shares its proximity placement group.
      group = index == 0
    } if contains(var.ways, "same-network")
  }

  hosts = concat([module.client.host], values(module.server)[*].host, module.hub.hosts)

  scenarios = concat(
    [for name, server in local.servers : {
      label   = name
      from    = "client"
      to      = name
      via     = null
      address = null
      tags = merge(
        { region = var.region, way = "same-network", zone-from = var.zones[0], zone-to = server.zone },
        server.group ? { placement = "proximity-group" } : {},
      )
    }],
    module.hub.scenarios,
  )
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
  client              = { id = module.client_network.id, name = module.client_network.name, range = local.client_range }
  rules               = local.rules
  host                = local.host
  tags                = local.tags

  firewall = {
    tier                = var.firewall_tier
    rules_before        = var.firewall_rules_before
    intrusion_detection = var.firewall_intrusion_detection
  }
}

module "client_network" {
  source = "../modules/network"

  name                = "${var.name}-client"
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.region
  range               = local.client_range
  rules               = local.rules
  routes              = module.hub.routes
  subnets             = { hosts = { cidr = local.client_cidr, kind = "hosts" } }
  tags                = local.tags
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
  subnet_id                    = module.client_network.subnets["hosts"]
  private_ip                   = cidrhost(local.client_cidr, 10)
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
  subnet_id                    = module.client_network.subnets["hosts"]
  private_ip                   = each.value.ip
  proximity_placement_group_id = each.value.group ? azurerm_proximity_placement_group.near.id : null
  host                         = local.host
  tags                         = local.tags
}
