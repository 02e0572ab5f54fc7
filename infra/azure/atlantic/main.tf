# Which way of joining two far regions is faster: peering, a balancer, a private endpoint? (Azure Latency Part 2.)

variable "region" {
  description = "The client's."
  type        = string
  default     = "uksouth"

  validation {
    condition     = can(regex("^[A-Za-z][A-Za-z0-9]*([ -][A-Za-z0-9]+)*$", var.region))
    error_message = "Name a region, as in uksouth."
  }
}

variable "other_region" {
  description = "The server's."
  type        = string
  default     = "westus"

  validation {
    condition     = can(regex("^[A-Za-z][A-Za-z0-9]*([ -][A-Za-z0-9]+)*$", var.other_region))
    error_message = "Name a region, as in uksouth."
  }
}

locals {
  lab            = "atlantic"
  range          = "10.63.0.0/16"
  other_range    = "10.64.0.0/16"
  lab_ranges     = [local.range, local.other_range]
  hosts_cidr     = "10.63.1.0/24"
  other_cidr     = "10.64.1.0/24"
  jump_cidr      = "10.63.0.0/24"
  jump_subnet_id = module.network.subnets["jump"]
  tags_of_all    = { region = var.region, region-to = var.other_region }

  hosts = [module.client.host, module.server.host]

  # To one server, so that nothing but the way there differs.
  scenarios = [
    {
      label   = "transatlantic-peering", from = "client", to = "server", via = "global peering"
      address = null, tags = local.tags_of_all
    },
    {
      label   = "transatlantic-lb", from = "client", to = "server", via = "load balancer"
      address = module.balancer.address, tags = local.tags_of_all
    },
    {
      label   = "transatlantic-private-endpoint", from = "client", to = "server", via = "private endpoint"
      address = module.private_link.address, tags = local.tags_of_all
    },
  ]
}

module "network" {
  source = "../modules/network"

  name                = "${var.name}-here"
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

module "other_network" {
  source = "../modules/network"

  name                = "${var.name}-there"
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.other_region
  range               = local.other_range
  rules               = local.rules
  tags                = local.tags

  subnets = {
    hosts   = { cidr = local.other_cidr, kind = "hosts" }
    service = { cidr = "10.64.2.0/24", kind = "private-link" }
  }
}

module "peering" {
  source = "../modules/peering"

  resource_group_name = azurerm_resource_group.lab.name
  left                = { id = module.network.id, name = module.network.name }
  right               = { id = module.other_network.id, name = module.other_network.name }
}

module "client" {
  source = "../modules/host"

  name                = "client"
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.region
  subnet_id           = module.network.subnets["hosts"]
  private_ip          = cidrhost(local.hosts_cidr, 10)
  host                = local.host
  tags                = local.tags
}

module "server" {
  source = "../modules/host"

  name                = "server"
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.other_region
  subnet_id           = module.other_network.subnets["hosts"]
  private_ip          = cidrhost(local.other_cidr, 10)
  host                = local.host
  tags                = local.tags
}

module "balancer" {
  source = "../modules/balancer"

  name                = "${var.name}-there"
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.other_region
  subnet_id           = module.other_network.subnets["hosts"]
  private_ip          = cidrhost(local.other_cidr, 100)
  backends            = { server = module.server.interface_id }
  port                = var.port
  tags                = local.tags
}

module "private_link" {
  source = "../modules/private_link"

  name                = "${var.name}-atlantic"
  resource_group_name = azurerm_resource_group.lab.name
  service_location    = var.other_region
  service_subnet_id   = module.other_network.subnets["service"]
  frontend_id         = module.balancer.frontend_id
  endpoint_location   = var.region
  endpoint_subnet_id  = module.network.subnets["hosts"]
  tags                = local.tags
}
