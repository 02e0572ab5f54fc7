# What does a NAT gateway add, and after how long does it forget a silent connection? (Its idle limit, among others: 4 minutes.)

variable "region" {
  type    = string
  default = "uksouth"

  validation {
    condition     = can(regex("^[A-Za-z][A-Za-z0-9]*([ -][A-Za-z0-9]+)*$", var.region))
    error_message = "Name a region, as in uksouth."
  }
}

variable "idle_timeout_minutes" {
  description = "After so long without a packet the NAT gateway forgets a connection: 4 to 120."
  type        = number
  default     = 4
}

locals {
  lab   = "nat"
  range = "10.66.0.0/16"
  # And the gateway, which is where the server sees the client come from.
  lab_ranges     = [local.range, "${module.nat.address}/32"]
  inside_cidr    = "10.66.1.0/24"
  outside_cidr   = "10.66.2.0/24"
  jump_cidr      = "10.66.0.0/24"
  jump_subnet_id = module.network.subnets["jump"]

  hosts = [module.client.host, module.server.host]

  # To one server: by its private address, and by its public one, to which the way is by the gateway.
  scenarios = [
    {
      label = "direct", from = "client", to = "server", via = null, address = null
      tags  = { region = var.region }
    },
    {
      label   = "nat-gateway", from = "client", to = "server", via = "NAT gateway"
      address = module.server.public_address
      tags    = { region = var.region, idle-timeout-minutes = tostring(var.idle_timeout_minutes) }
    },
  ]
}

module "nat" {
  source = "../modules/nat"

  name                 = "${var.name}-nat"
  resource_group_name  = azurerm_resource_group.lab.name
  location             = var.region
  idle_timeout_minutes = var.idle_timeout_minutes
  tags                 = local.tags
}

module "network" {
  source = "../modules/network"

  name                = "${var.name}-nat"
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.region
  range               = local.range
  rules               = local.rules
  nat_gateway         = { id = module.nat.id, subnets = ["inside"] }
  tags                = local.tags

  subnets = {
    jump    = { cidr = local.jump_cidr, kind = "jump" }
    inside  = { cidr = local.inside_cidr, kind = "hosts" }
    outside = { cidr = local.outside_cidr, kind = "hosts" }
  }
}

module "client" {
  source = "../modules/host"

  name                = "client"
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.region
  subnet_id           = module.network.subnets["inside"]
  private_ip          = cidrhost(local.inside_cidr, 10)
  host                = local.host
  tags                = local.tags
}

# It must have a public address: to no other does a NAT gateway lead. The test port is open to the gateway alone.
module "server" {
  source = "../modules/host"

  name                = "server"
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.region
  subnet_id           = module.network.subnets["outside"]
  private_ip          = cidrhost(local.outside_cidr, 10)
  public              = true
  host                = local.host
  tags                = local.tags
}
