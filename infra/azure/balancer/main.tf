# What does a load balancer add, in a zone and between two? (Azure Latency Part 2; also the virtual address of the
# SQL Server article.)

variable "region" {
  type    = string
  default = "uksouth"

  validation {
    condition     = can(regex("^[A-Za-z][A-Za-z0-9]*([ -][A-Za-z0-9]+)*$", var.region))
    error_message = "Name a region, as in uksouth."
  }
}

variable "zones" {
  description = "The client's, and the other one."
  type        = list(string)
  default     = ["1", "2"]

  validation {
    condition     = length(var.zones) == 2
    error_message = "Name two zones."
  }

  validation {
    condition     = can([for zone in var.zones : regex("^[1-9]$", zone)])
    error_message = "Azure's zones are numbers, as in 1."
  }
}

variable "idle_timeout_minutes" {
  description = "After so long without a packet the balancers forget a connection: 4 to 100."
  type        = number
  default     = 4
}

variable "tcp_reset" {
  description = "The balancers tell both ends when they forget a connection; Azure's own default is silence."
  type        = bool
  default     = false
}

locals {
  lab            = "balancer"
  range          = "10.62.0.0/16"
  lab_ranges     = [local.range]
  hosts_cidr     = "10.62.1.0/24"
  jump_cidr      = "10.62.0.0/24"
  jump_subnet_id = module.network.subnets["jump"]

  backends = {
    same-zone  = { zone = var.zones[0], ip = cidrhost(local.hosts_cidr, 20), frontend = cidrhost(local.hosts_cidr, 100) }
    cross-zone = { zone = var.zones[1], ip = cidrhost(local.hosts_cidr, 21), frontend = cidrhost(local.hosts_cidr, 101) }
  }

  hosts = concat([module.client.host], values(module.backend)[*].host)

  # Directly and by the balancer to the same host, so that nothing but the balancer differs.
  scenarios = flatten([
    for label, backend in local.backends : [
      {
        label = label, from = "client", to = "backend-${label}", via = null, address = null
        tags  = { region = var.region, zone-from = var.zones[0], zone-to = backend.zone }
      },
      {
        label   = "${label}-lb"
        from    = "client"
        to      = "backend-${label}"
        via     = "load balancer"
        address = module.balancer[label].address
        tags = {
          region               = var.region, zone-from = var.zones[0], zone-to = backend.zone
          idle-timeout-minutes = tostring(var.idle_timeout_minutes), tcp-reset = tostring(var.tcp_reset)
        }
      },
    ]
  ])
}

module "network" {
  source = "../modules/network"

  name                = "${var.name}-balancer"
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

module "backend" {
  source   = "../modules/host"
  for_each = local.backends

  name                = "backend-${each.key}"
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.region
  zone                = each.value.zone
  subnet_id           = module.network.subnets["hosts"]
  private_ip          = each.value.ip
  host                = local.host
  tags                = local.tags
}

module "balancer" {
  source   = "../modules/balancer"
  for_each = local.backends

  name                 = "${var.name}-${each.key}"
  resource_group_name  = azurerm_resource_group.lab.name
  location             = var.region
  subnet_id            = module.network.subnets["hosts"]
  private_ip           = each.value.frontend
  zones                = [each.value.zone]
  backends             = { "backend-${each.key}" = module.backend[each.key].interface_id }
  port                 = var.port
  idle_timeout_minutes = var.idle_timeout_minutes
  tcp_reset            = var.tcp_reset
  tags                 = local.tags
}
