# A VPN gateway in a hub, as a router between spokes: no tunnel ends on it.

resource "azurerm_public_ip" "this" {
  name                = "${var.name}-gateway"
  resource_group_name = var.resource_group_name
  location            = var.location
  allocation_method   = "Static"
  sku                 = "Standard"
  # A gateway of a size that ends in AZ wants one in all zones.
  zones = var.zones
  tags  = var.tags
}

resource "azurerm_virtual_network_gateway" "this" {
  name                = var.name
  resource_group_name = var.resource_group_name
  location            = var.location
  type                = "Vpn"
  vpn_type            = "RouteBased"
  sku                 = var.size
  active_active       = false
  bgp_enabled         = false
  tags                = var.tags

  ip_configuration {
    name                          = "first"
    subnet_id                     = var.subnet_id
    public_ip_address_id          = azurerm_public_ip.this.id
    private_ip_address_allocation = "Dynamic"
  }
}
