# A Standard balancer inside a network, in front of hosts.

resource "azurerm_lb" "this" {
  name                = var.name
  resource_group_name = var.resource_group_name
  location            = var.location
  sku                 = "Standard"
  tags                = var.tags

  frontend_ip_configuration {
    name                          = "frontend"
    subnet_id                     = var.subnet_id
    private_ip_address_allocation = "Static"
    private_ip_address            = var.private_ip
    zones                         = var.zones
  }
}

resource "azurerm_lb_backend_address_pool" "this" {
  name            = "hosts"
  loadbalancer_id = azurerm_lb.this.id
}

resource "azurerm_network_interface_backend_address_pool_association" "this" {
  for_each = var.backends

  network_interface_id    = each.value
  ip_configuration_name   = "first"
  backend_address_pool_id = azurerm_lb_backend_address_pool.this.id
}

resource "azurerm_lb_probe" "this" {
  name                = "reflector"
  loadbalancer_id     = azurerm_lb.this.id
  protocol            = "Tcp"
  port                = var.port
  interval_in_seconds = 5
}

resource "azurerm_lb_rule" "this" {
  name                           = "reflector"
  loadbalancer_id                = azurerm_lb.this.id
  frontend_ip_configuration_name = "frontend"
  backend_address_pool_ids       = [azurerm_lb_backend_address_pool.this.id]
  probe_id                       = azurerm_lb_probe.this.id
  protocol                       = "Tcp"
  frontend_port                  = var.port
  backend_port                   = var.port
  floating_ip_enabled            = false
  idle_timeout_in_minutes        = var.idle_timeout_minutes
  tcp_reset_enabled              = var.tcp_reset
}
