output "address" {
  description = "What clients connect to."
  value       = azurerm_private_endpoint.this.private_service_connection[0].private_ip_address
}
