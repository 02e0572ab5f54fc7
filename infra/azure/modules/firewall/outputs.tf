output "address" {
  description = "What routes name as their next hop."
  value       = azurerm_firewall.this.ip_configuration[0].private_ip_address
}
