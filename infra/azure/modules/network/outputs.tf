output "id" {
  value = azurerm_virtual_network.this.id
}

output "name" {
  value = azurerm_virtual_network.this.name
}

# Only when they are guarded: nothing is put into a subnet that is open.
output "subnets" {
  value      = { for name, subnet in azurerm_subnet.this : name => subnet.id }
  depends_on = [azurerm_subnet_network_security_group_association.this, azurerm_network_security_rule.deny]
}
