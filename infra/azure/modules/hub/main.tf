# A hub and its spokes, with a server in each zone of each: joined to the client's network directly, by a VPN gateway in the
# hub, or by a firewall there.

locals {
  vpn      = contains(keys(var.spokes), "vpn")
  firewall = contains(keys(var.spokes), "firewall")
  via      = { peering = "peering", vpn = "VPN gateway in the hub", firewall = "firewall in the hub" }

  # From the client's network to a spoke; the way back is the same one.
  hops = merge(
    local.vpn ? { vpn = { next_hop_type = "VirtualNetworkGateway", next_hop_address = null } } : {},
    local.firewall ? {
      firewall = { next_hop_type = "VirtualAppliance", next_hop_address = module.firewall[0].address }
    } : {},
  )

  servers = merge([
    for way, range in var.spokes : {
      for index, zone in var.zones : "${way}-zone-${zone}" => {
        way  = way
        zone = zone
        ip   = cidrhost(cidrsubnet(range, 8, 1), 20 + index)
      }
    }
  ]...)
}

module "network" {
  source = "../network"

  name                = "${var.name}-hub"
  resource_group_name = var.resource_group_name
  location            = var.location
  range               = var.range
  rules               = var.rules
  tags                = var.tags

  subnets = merge(
    { jump = { cidr = var.jump_cidr, kind = "jump" } },
    local.vpn ? { GatewaySubnet = { cidr = cidrsubnet(var.range, 8, 2), kind = "gateway" } } : {},
    local.firewall ? { AzureFirewallSubnet = { cidr = cidrsubnet(var.range, 8, 3), kind = "gateway" } } : {},
  )
}

module "vpn_gateway" {
  source = "../vpn_gateway"
  count  = local.vpn ? 1 : 0

  name                = "${var.name}-hub"
  resource_group_name = var.resource_group_name
  location            = var.location
  subnet_id           = module.network.subnets["GatewaySubnet"]
  zones               = var.zones
  tags                = var.tags
}

module "firewall" {
  source = "../firewall"
  count  = local.firewall ? 1 : 0

  name                = "${var.name}-hub"
  resource_group_name = var.resource_group_name
  location            = var.location
  subnet_id           = module.network.subnets["AzureFirewallSubnet"]
  zones               = var.zones
  tier                = var.firewall.tier
  rules_before        = var.firewall.rules_before
  intrusion_detection = var.firewall.intrusion_detection
  port                = var.rules.port
  lab_ranges          = var.rules.lab_ranges
  tags                = var.tags
}

module "spoke" {
  source   = "../network"
  for_each = var.spokes

  name                = "${var.name}-${each.key}"
  resource_group_name = var.resource_group_name
  location            = var.location
  range               = each.value
  rules               = var.rules
  routes              = { for way, hop in local.hops : "back" => merge(hop, { to = var.client.range }) if way == each.key }
  subnets             = { hosts = { cidr = cidrsubnet(each.value, 8, 1), kind = "hosts" } }
  tags                = var.tags
}

module "client_to_hub" {
  source = "../peering"

  resource_group_name = var.resource_group_name
  left                = { id = module.network.id, name = module.network.name }
  right               = { id = var.client.id, name = var.client.name }
  forwarded           = true
  gateway_on_left     = local.vpn

  # Azure refuses a peering that uses a gateway which is not there yet.
  depends_on = [module.vpn_gateway]
}

module "spoke_to_hub" {
  source   = "../peering"
  for_each = var.spokes

  resource_group_name = var.resource_group_name
  left                = { id = module.network.id, name = module.network.name }
  right               = { id = module.spoke[each.key].id, name = module.spoke[each.key].name }
  forwarded           = true
  gateway_on_left     = each.key == "vpn"

  depends_on = [module.vpn_gateway]
}

module "client_to_spoke" {
  source = "../peering"
  count  = contains(keys(var.spokes), "peering") ? 1 : 0

  resource_group_name = var.resource_group_name
  left                = { id = var.client.id, name = var.client.name }
  right               = { id = module.spoke["peering"].id, name = module.spoke["peering"].name }
}

module "server" {
  source   = "../host"
  for_each = local.servers

  name                = each.key
  resource_group_name = var.resource_group_name
  location            = var.location
  zone                = each.value.zone
  subnet_id           = module.spoke[each.value.way].subnets["hosts"]
  private_ip          = each.value.ip
  host                = var.host
  tags                = var.tags
}
