# One Linux host, and the hour at which the platform deallocates it.

resource "azurerm_public_ip" "this" {
  count = var.public ? 1 : 0

  name                = var.name
  resource_group_name = var.resource_group_name
  location            = var.location
  allocation_method   = "Static"
  sku                 = "Standard"
  zones               = var.zone == null ? null : [var.zone]
  tags                = var.tags
}

resource "azurerm_network_interface" "this" {
  name                           = var.name
  resource_group_name            = var.resource_group_name
  location                       = var.location
  accelerated_networking_enabled = var.accelerated_networking
  tags                           = var.tags

  ip_configuration {
    name                          = "first"
    subnet_id                     = var.subnet_id
    private_ip_address_allocation = "Static"
    private_ip_address            = var.private_ip
    public_ip_address_id          = one(azurerm_public_ip.this[*].id)
  }
}

resource "azurerm_linux_virtual_machine" "this" {
  name                            = var.name
  resource_group_name             = var.resource_group_name
  location                        = var.location
  zone                            = var.zone
  size                            = var.host.size
  network_interface_ids           = [azurerm_network_interface.this.id]
  proximity_placement_group_id    = var.proximity_placement_group_id
  availability_set_id             = var.availability_set_id
  dedicated_host_id               = var.dedicated_host_id
  admin_username                  = var.host.user
  disable_password_authentication = true
  tags                            = var.tags

  # Of the metadata service, which cloud-init asks for it: the other way (custom_data) would be a secret of the state's.
  user_data = var.mtu == null ? null : base64encode("#cloud-config\nruncmd: [[ip, link, set, dev, eth0, mtu, '${var.mtu}']]\n")

  admin_ssh_key {
    username   = var.host.user
    public_key = var.host.ssh_public_key
  }

  os_disk {
    caching              = "ReadWrite"
    storage_account_type = "StandardSSD_LRS"
  }

  # Nothing is installed: `fathom study` copies its binary by SSH.
  source_image_reference {
    publisher = var.image.publisher
    offer     = var.image.offer
    sku       = var.image.sku
    version   = "latest"
  }
}

# The platform does it, so that it needs nothing of the host and no way to the Internet. `shutdown` inside the host would
# stop it without deallocating it, and a stopped host costs what a running one does.
resource "azurerm_dev_test_global_vm_shutdown_schedule" "this" {
  virtual_machine_id    = azurerm_linux_virtual_machine.this.id
  location              = var.location
  enabled               = true
  daily_recurrence_time = formatdate("hhmm", var.host.expires)
  timezone              = "UTC"
  tags                  = var.tags

  notification_settings {
    enabled = false
  }
}
