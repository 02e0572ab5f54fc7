# A pair of hosts for each row of a table: what accelerated networking, a proximity group and an availability set do.

locals {
  ends = merge([
    for index, row in keys(var.rows) : {
      "${row}-client" = { row = row, ip = cidrhost(var.cidr, 10 + 2 * index) }
      "${row}-server" = { row = row, ip = cidrhost(var.cidr, 11 + 2 * index) }
    }
  ]...)
}

resource "azurerm_proximity_placement_group" "row" {
  for_each = { for row, has in var.rows : row => has if has.proximity_group }

  name                = "${var.name}-${each.key}"
  resource_group_name = var.resource_group_name
  location            = var.location
  tags                = var.tags
}

resource "azurerm_availability_set" "row" {
  for_each = { for row, has in var.rows : row => has if has.availability_set }

  name                         = "${var.name}-${each.key}"
  resource_group_name          = var.resource_group_name
  location                     = var.location
  platform_fault_domain_count  = 2
  proximity_placement_group_id = each.value.proximity_group ? azurerm_proximity_placement_group.row[each.key].id : null
  tags                         = var.tags
}

module "host" {
  source   = "../host"
  for_each = local.ends

  name                         = each.key
  resource_group_name          = var.resource_group_name
  location                     = var.location
  subnet_id                    = var.subnet_id
  private_ip                   = each.value.ip
  accelerated_networking       = var.rows[each.value.row].accelerated_networking
  mtu                          = var.rows[each.value.row].mtu == 1500 ? null : var.rows[each.value.row].mtu
  proximity_placement_group_id = try(azurerm_proximity_placement_group.row[each.value.row].id, null)
  availability_set_id          = try(azurerm_availability_set.row[each.value.row].id, null)
  host                         = var.host
  tags                         = var.tags
}
