# What do accelerated networking, a proximity placement group and an availability set do? (Accelerated Networking in Azure.)

variable "region" {
  type    = string
  default = "uksouth"
}

variable "rows" {
  description = "A pair of hosts for each row of the table. No zones: Azure has availability sets only without them."
  type = map(object({
    accelerated_networking = bool
    proximity_group        = bool
    availability_set       = bool
  }))
  default = {
    an-off           = { accelerated_networking = false, proximity_group = false, availability_set = false }
    an-on            = { accelerated_networking = true, proximity_group = false, availability_set = false }
    an-on-group      = { accelerated_networking = true, proximity_group = true, availability_set = false }
    an-on-group-sets = { accelerated_networking = true, proximity_group = true, availability_set = true }
  }
}

locals {
  lab            = "placement"
  range          = "10.65.0.0/16"
  lab_ranges     = [local.range]
  hosts_cidr     = "10.65.1.0/24"
  jump_cidr      = "10.65.0.0/24"
  jump_subnet_id = module.network.subnets["jump"]

  ends = merge([
    for index, row in keys(var.rows) : {
      "${row}-client" = { row = row, ip = cidrhost(local.hosts_cidr, 10 + 2 * index) }
      "${row}-server" = { row = row, ip = cidrhost(local.hosts_cidr, 11 + 2 * index) }
    }
  ]...)

  hosts = values(module.host)[*].host

  scenarios = [for row, has in var.rows : {
    label = row, from = "${row}-client", to = "${row}-server", via = null, address = null
    tags = {
      region                 = var.region
      accelerated-networking = tostring(has.accelerated_networking)
      proximity-group        = tostring(has.proximity_group)
      availability-set       = tostring(has.availability_set)
    }
  }]
}

module "network" {
  source = "../modules/network"

  name                = "${var.name}-placement"
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

resource "azurerm_proximity_placement_group" "row" {
  for_each = { for row, has in var.rows : row => has if has.proximity_group }

  name                = "${var.name}-${each.key}"
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.region
  tags                = local.tags
}

resource "azurerm_availability_set" "row" {
  for_each = { for row, has in var.rows : row => has if has.availability_set }

  name                         = "${var.name}-${each.key}"
  resource_group_name          = azurerm_resource_group.lab.name
  location                     = var.region
  platform_fault_domain_count  = 2
  proximity_placement_group_id = each.value.proximity_group ? azurerm_proximity_placement_group.row[each.key].id : null
  tags                         = local.tags
}

module "host" {
  source   = "../modules/host"
  for_each = local.ends

  name                         = each.key
  resource_group_name          = azurerm_resource_group.lab.name
  location                     = var.region
  subnet_id                    = module.network.subnets["hosts"]
  private_ip                   = each.value.ip
  accelerated_networking       = var.rows[each.value.row].accelerated_networking
  proximity_placement_group_id = try(azurerm_proximity_placement_group.row[each.value.row].id, null)
  availability_set_id          = try(azurerm_availability_set.row[each.value.row].id, null)
  host                         = local.host
  tags                         = local.tags
}
