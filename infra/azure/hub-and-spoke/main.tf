# What does a hub add, by zone: none, peering, a VPN gateway, a firewall? (Azure hub and spoke playground.)

variable "region" {
  type    = string
  default = "westeurope"
}

variable "zones" {
  description = "The client is in the first one; each way has a server in each."
  type        = list(string)
  default     = ["1", "2", "3"]

  validation {
    condition     = length(var.zones) > 0 && length(distinct(var.zones)) == length(var.zones)
    error_message = "Name one zone or more, each once."
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
  jump_subnet_id = module.hub.subnets["jump"]
  lab_ranges     = concat([local.hub_range, local.client_range], values(local.spoke_ranges))

  client_range = "10.71.0.0/16"
  client_cidr  = "10.71.1.0/24"
  spoke_ranges = {
    for way, range in { peering = "10.72.0.0/16", vpn = "10.73.0.0/16", firewall = "10.74.0.0/16" } :
    way => range if contains(var.ways, way)
  }
  via = { same-network = null, peering = "peering", vpn = "VPN gateway in the hub", firewall = "firewall in the hub" }

  vpn      = contains(var.ways, "vpn")
  firewall = contains(var.ways, "firewall")

  # From the client's network to a spoke; the way back is the same one.
  hops = merge(
    local.vpn ? { vpn = { next_hop_type = "VirtualNetworkGateway", next_hop_address = null } } : {},
    local.firewall ? {
      firewall = { next_hop_type = "VirtualAppliance", next_hop_address = module.firewall[0].address }
    } : {},
  )

  servers = merge([
    for way in var.ways : {
      for index, zone in var.zones : "${way}-zone-${zone}" => {
        way  = way
        zone = zone
        ip   = cidrhost(way == "same-network" ? local.client_cidr : cidrsubnet(local.spoke_ranges[way], 8, 1), 20 + index)
        # As published: the server beside the client shares its proximity placement group.
        group = way == "same-network" && index == 0
      }
    }
  ]...)

  subnet_ids = merge(
    { same-network = module.client_network.subnets["hosts"] },
    { for way, network in module.spoke : way => network.subnets["hosts"] },
  )

  hosts = concat([module.client.host], values(module.server)[*].host)

  scenarios = [for name, server in local.servers : {
    label   = name
    from    = "client"
    to      = name
    via     = local.via[server.way]
    address = null
    tags = merge(
      { region = var.region, way = server.way, zone-from = var.zones[0], zone-to = server.zone },
      server.group ? { placement = "proximity-group" } : {},
      server.way == "firewall" ? {
        firewall-tier                = var.firewall_tier, firewall-rules-before = tostring(var.firewall_rules_before)
        firewall-intrusion-detection = var.firewall_intrusion_detection
      } : {},
    )
  }]
}

module "hub" {
  source = "../modules/network"

  name                = "${var.name}-hub"
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.region
  range               = local.hub_range
  rules               = local.rules
  tags                = local.tags

  subnets = merge(
    { jump = { cidr = local.jump_cidr, kind = "jump" } },
    local.vpn ? { GatewaySubnet = { cidr = "10.70.2.0/24", kind = "gateway" } } : {},
    local.firewall ? { AzureFirewallSubnet = { cidr = "10.70.3.0/24", kind = "gateway" } } : {},
  )
}

module "vpn_gateway" {
  source = "../modules/vpn_gateway"
  count  = local.vpn ? 1 : 0

  name                = "${var.name}-hub"
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.region
  subnet_id           = module.hub.subnets["GatewaySubnet"]
  zones               = var.zones
  tags                = local.tags
}

module "firewall" {
  source = "../modules/firewall"
  count  = local.firewall ? 1 : 0

  name                = "${var.name}-hub"
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.region
  subnet_id           = module.hub.subnets["AzureFirewallSubnet"]
  zones               = var.zones
  tier                = var.firewall_tier
  rules_before        = var.firewall_rules_before
  intrusion_detection = var.firewall_intrusion_detection
  port                = var.port
  lab_ranges          = local.lab_ranges
  tags                = local.tags
}

module "client_network" {
  source = "../modules/network"

  name                = "${var.name}-client"
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.region
  range               = local.client_range
  rules               = local.rules
  routes              = { for way, hop in local.hops : "to-${way}" => merge(hop, { to = local.spoke_ranges[way] }) }
  subnets             = { hosts = { cidr = local.client_cidr, kind = "hosts" } }
  tags                = local.tags
}

module "spoke" {
  source   = "../modules/network"
  for_each = local.spoke_ranges

  name                = "${var.name}-${each.key}"
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.region
  range               = each.value
  rules               = local.rules
  routes              = { for way, hop in local.hops : "back" => merge(hop, { to = local.client_range }) if way == each.key }
  subnets             = { hosts = { cidr = cidrsubnet(each.value, 8, 1), kind = "hosts" } }
  tags                = local.tags
}

module "client_to_hub" {
  source = "../modules/peering"

  resource_group_name = azurerm_resource_group.lab.name
  left                = { id = module.hub.id, name = module.hub.name }
  right               = { id = module.client_network.id, name = module.client_network.name }
  forwarded           = true
  gateway_on_left     = local.vpn

  # Azure refuses a peering that uses a gateway which is not there yet.
  depends_on = [module.vpn_gateway]
}

module "spoke_to_hub" {
  source   = "../modules/peering"
  for_each = local.spoke_ranges

  resource_group_name = azurerm_resource_group.lab.name
  left                = { id = module.hub.id, name = module.hub.name }
  right               = { id = module.spoke[each.key].id, name = module.spoke[each.key].name }
  forwarded           = true
  gateway_on_left     = each.key == "vpn"

  depends_on = [module.vpn_gateway]
}

module "client_to_spoke" {
  source = "../modules/peering"
  count  = contains(var.ways, "peering") ? 1 : 0

  resource_group_name = azurerm_resource_group.lab.name
  left                = { id = module.client_network.id, name = module.client_network.name }
  right               = { id = module.spoke["peering"].id, name = module.spoke["peering"].name }
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
  subnet_id                    = local.subnet_ids[each.value.way]
  private_ip                   = each.value.ip
  proximity_placement_group_id = each.value.group ? azurerm_proximity_placement_group.near.id : null
  host                         = local.host
  tags                         = local.tags
}
