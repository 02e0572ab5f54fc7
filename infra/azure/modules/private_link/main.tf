# A balancer's frontend, given into another network as an address there.

resource "azurerm_private_link_service" "this" {
  name                                        = var.name
  resource_group_name                         = var.resource_group_name
  location                                    = var.service_location
  load_balancer_frontend_ip_configuration_ids = [var.frontend_id]
  proxy_protocol_enabled                      = false
  tags                                        = var.tags

  nat_ip_configuration {
    name      = "first"
    primary   = true
    subnet_id = var.service_subnet_id
  }
}

resource "azurerm_private_endpoint" "this" {
  name                = var.name
  resource_group_name = var.resource_group_name
  location            = var.endpoint_location
  subnet_id           = var.endpoint_subnet_id
  tags                = var.tags

  private_service_connection {
    name                           = var.name
    private_connection_resource_id = azurerm_private_link_service.this.id
    is_manual_connection           = false
  }
}
