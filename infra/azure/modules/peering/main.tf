# Two networks joined, in one region or in two. Each side says for itself what it allows.

locals {
  sides = {
    there = { name = var.left.name, to = var.right, gateway = var.gateway_on_left, uses = false }
    back  = { name = var.right.name, to = var.left, gateway = false, uses = var.gateway_on_left }
  }
}

resource "azurerm_virtual_network_peering" "this" {
  for_each = local.sides

  name                         = "${each.value.name}-${each.value.to.name}"
  resource_group_name          = var.resource_group_name
  virtual_network_name         = each.value.name
  remote_virtual_network_id    = each.value.to.id
  allow_virtual_network_access = true
  # What a firewall or a gateway in the other network passes on.
  allow_forwarded_traffic = var.forwarded
  allow_gateway_transit   = each.value.gateway
  use_remote_gateways     = each.value.uses
}
