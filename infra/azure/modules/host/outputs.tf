output "host" {
  description = "As a study's [[host]] wants it, without the way to it."
  value = {
    name    = var.name
    address = var.private_ip
    user    = var.host.user
  }
}

output "public_address" {
  value = one(azurerm_public_ip.this[*].ip_address)
}

output "interface_id" {
  value = azurerm_network_interface.this.id
}
