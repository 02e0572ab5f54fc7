output "address" {
  value = var.private_ip
}

output "frontend_id" {
  value = azurerm_lb.this.frontend_ip_configuration[0].id
}
