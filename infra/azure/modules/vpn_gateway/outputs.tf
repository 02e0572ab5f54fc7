output "id" {
  value = azurerm_virtual_network_gateway.this.id
}
