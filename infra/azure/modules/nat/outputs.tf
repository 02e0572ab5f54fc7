output "id" {
  # Not before it has its address.
  value      = azurerm_nat_gateway.this.id
  depends_on = [azurerm_nat_gateway_public_ip_association.this]
}

output "address" {
  description = "Whence others see its hosts come."
  value       = azurerm_public_ip.this.ip_address
}
