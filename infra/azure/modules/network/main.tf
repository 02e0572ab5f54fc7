# One virtual network: its subnets, who may reach the hosts in them, and which way they send.

resource "azurerm_virtual_network" "this" {
  name                = var.name
  resource_group_name = var.resource_group_name
  location            = var.location
  address_space       = [var.range]
  tags                = var.tags
}

resource "azurerm_subnet" "this" {
  for_each = var.subnets

  name                 = each.key
  resource_group_name  = var.resource_group_name
  virtual_network_name = azurerm_virtual_network.this.name
  address_prefixes     = [each.value.cidr]

  # Nothing goes out to the Internet because nobody said anything.
  default_outbound_access_enabled = false
  # A private link service takes its addresses only where policies are off.
  private_link_service_network_policies_enabled = each.value.kind != "private-link"
}

locals {
  # Azure refuses security groups on the subnets of its gateways and firewalls.
  guarded = { for name, subnet in var.subnets : name => subnet if contains(["hosts", "jump", "private-link"], subnet.kind) }
  routed  = { for name, subnet in var.subnets : name => subnet if subnet.kind == "hosts" && length(var.routes) > 0 }

  # From the jump host alone where there is one, else from where the user says.
  to_hosts = var.rules.jump_cidr == null ? var.rules.ssh_from : var.rules.jump_cidr

  allowed = {
    hosts = {
      test-tcp = { priority = 100, protocol = "Tcp", port = var.rules.port, sources = var.rules.lab_ranges, tag = null }
      test-udp = { priority = 110, protocol = "Udp", port = var.rules.port, sources = var.rules.lab_ranges, tag = null }
      ssh      = { priority = 120, protocol = "Tcp", port = 22, sources = [local.to_hosts], tag = null }
      # The probes of a balancer come from the platform, and from no network of ours.
      balancer = { priority = 130, protocol = "Tcp", port = var.rules.port, sources = null, tag = "AzureLoadBalancer" }
    }
    jump = {
      ssh = { priority = 120, protocol = "Tcp", port = 22, sources = [var.rules.ssh_from], tag = null }
    }
    private-link = {
      test-tcp = { priority = 100, protocol = "Tcp", port = var.rules.port, sources = var.rules.lab_ranges, tag = null }
    }
  }

  security_rules = merge([
    for subnet, value in local.guarded : {
      for rule, allow in local.allowed[value.kind] : "${subnet}-${rule}" => merge(allow, { subnet = subnet, name = rule })
    }
  ]...)
}

resource "azurerm_network_security_group" "this" {
  for_each = local.guarded

  name                = "${var.name}-${each.key}"
  resource_group_name = var.resource_group_name
  location            = var.location
  tags                = var.tags
}

resource "azurerm_network_security_rule" "allow" {
  for_each = local.security_rules

  name                        = each.value.name
  resource_group_name         = var.resource_group_name
  network_security_group_name = azurerm_network_security_group.this[each.value.subnet].name
  priority                    = each.value.priority
  direction                   = "Inbound"
  access                      = "Allow"
  protocol                    = each.value.protocol
  source_port_range           = "*"
  source_address_prefixes     = each.value.sources
  source_address_prefix       = each.value.tag
  destination_address_prefix  = var.subnets[each.value.subnet].cidr
  destination_port_range      = tostring(each.value.port)
}

# Azure's own rule would let everything in from every network that is joined to this one.
resource "azurerm_network_security_rule" "deny" {
  for_each = local.guarded

  name                        = "nothing-else"
  resource_group_name         = var.resource_group_name
  network_security_group_name = azurerm_network_security_group.this[each.key].name
  priority                    = 4096
  direction                   = "Inbound"
  access                      = "Deny"
  protocol                    = "*"
  source_port_range           = "*"
  source_address_prefix       = "*"
  destination_address_prefix  = "*"
  destination_port_range      = "*"
}

resource "azurerm_subnet_network_security_group_association" "this" {
  for_each = local.guarded

  subnet_id                 = azurerm_subnet.this[each.key].id
  network_security_group_id = azurerm_network_security_group.this[each.key].id
}

resource "azurerm_route_table" "this" {
  count = length(var.routes) > 0 ? 1 : 0

  name                = var.name
  resource_group_name = var.resource_group_name
  location            = var.location
  tags                = var.tags
}

resource "azurerm_route" "this" {
  for_each = var.routes

  name                   = each.key
  resource_group_name    = var.resource_group_name
  route_table_name       = azurerm_route_table.this[0].name
  address_prefix         = each.value.to
  next_hop_type          = each.value.next_hop_type
  next_hop_in_ip_address = each.value.next_hop_address
}

resource "azurerm_subnet_route_table_association" "this" {
  for_each = local.routed

  subnet_id      = azurerm_subnet.this[each.key].id
  route_table_id = azurerm_route_table.this[0].id
}

resource "azurerm_subnet_nat_gateway_association" "this" {
  for_each = var.nat_gateway == null ? toset([]) : var.nat_gateway.subnets

  subnet_id      = azurerm_subnet.this[each.key].id
  nat_gateway_id = var.nat_gateway.id
}
