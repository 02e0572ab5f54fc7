# The hosts in other regions, and the ways there. The hub is joined to them for the jump host alone.

module "near_network" {
  source = "../modules/network"

  name                = "${var.name}-near"
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.near_region
  range               = local.near_range
  rules               = local.rules
  subnets             = { hosts = { cidr = "10.61.1.0/24", kind = "hosts" } }
  tags                = local.tags
}

module "far_network" {
  source = "../modules/network"

  name                = "${var.name}-far"
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.far_region
  range               = local.far_range
  rules               = local.rules
  tags                = local.tags

  subnets = {
    hosts   = { cidr = local.far_cidr, kind = "hosts" }
    service = { cidr = "10.64.2.0/24", kind = "private-link" }
  }
}

locals {
  beyond = {
    near = { id = module.near_network.id, name = module.near_network.name }
    far  = { id = module.far_network.id, name = module.far_network.name }
  }
}

module "peering" {
  source   = "../modules/peering"
  for_each = local.beyond

  resource_group_name = azurerm_resource_group.lab.name
  left                = { id = module.network.id, name = module.network.name }
  right               = each.value
}

module "jump_peering" {
  source   = "../modules/peering"
  for_each = { for name, network in local.beyond : name => network if var.public_jump }

  resource_group_name = azurerm_resource_group.lab.name
  left                = { id = module.hub.id, name = module.hub.name }
  right               = each.value
}

module "near" {
  source = "../modules/host"

  name                = "near"
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.near_region
  subnet_id           = module.near_network.subnets["hosts"]
  private_ip          = "10.61.1.10"
  host                = local.host
  tags                = local.tags
}

module "far" {
  source = "../modules/host"

  name                = "far"
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.far_region
  subnet_id           = module.far_network.subnets["hosts"]
  private_ip          = cidrhost(local.far_cidr, 10)
  host                = local.host
  tags                = local.tags
}

module "far_balancer" {
  source = "../modules/balancer"

  name                = "${var.name}-far"
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.far_region
  subnet_id           = module.far_network.subnets["hosts"]
  private_ip          = cidrhost(local.far_cidr, 100)
  backends            = { far = module.far.interface_id }
  port                = var.port
  tags                = local.tags
}

module "private_link" {
  source = "../modules/private_link"

  name                = "${var.name}-far"
  resource_group_name = azurerm_resource_group.lab.name
  service_location    = var.far_region
  service_subnet_id   = module.far_network.subnets["service"]
  frontend_id         = module.far_balancer.frontend_id
  endpoint_location   = var.region
  endpoint_subnet_id  = module.network.subnets["hosts"]
  tags                = local.tags
}
