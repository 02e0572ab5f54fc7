# An Azure Firewall in a hub, with as many rules before the one that lets the test pass as are asked for.

resource "azurerm_public_ip" "this" {
  name                = "${var.name}-firewall"
  resource_group_name = var.resource_group_name
  location            = var.location
  allocation_method   = "Static"
  sku                 = "Standard"
  zones               = var.zones
  tags                = var.tags
}

resource "azurerm_firewall_policy" "this" {
  name                     = var.name
  resource_group_name      = var.resource_group_name
  location                 = var.location
  sku                      = var.tier
  threat_intelligence_mode = var.threat_intelligence
  tags                     = var.tags

  dynamic "intrusion_detection" {
    for_each = var.tier == "Premium" ? [var.intrusion_detection] : []

    content {
      mode = intrusion_detection.value
    }
  }
}

locals {
  # A single range() has 1,024 values at the most.
  rules_before = flatten([for first in range(0, var.rules_before, 1000) : range(first, min(first + 1000, var.rules_before))])
}

resource "azurerm_firewall_policy_rule_collection_group" "this" {
  name               = "lab"
  firewall_policy_id = azurerm_firewall_policy.this.id
  priority           = 1000

  # Rules that match nothing, and are looked at first.
  dynamic "network_rule_collection" {
    for_each = length(local.rules_before) > 0 ? [local.rules_before] : []

    content {
      name     = "before"
      priority = 100
      action   = "Deny"

      dynamic "rule" {
        for_each = network_rule_collection.value

        content {
          name = "before-${rule.value}"
          # TEST-NET-3 (RFC 5737): nobody sends from there.
          source_addresses      = ["203.0.113.${rule.value % 256}"]
          destination_addresses = var.lab_ranges
          destination_ports     = [tostring(10000 + floor(rule.value / 256))]
          protocols             = ["TCP"]
        }
      }
    }
  }

  network_rule_collection {
    name     = "test"
    priority = 200
    action   = "Allow"

    rule {
      name                  = "reflector"
      source_addresses      = var.lab_ranges
      destination_addresses = var.lab_ranges
      destination_ports     = [tostring(var.port)]
      protocols             = ["TCP", "UDP"]
    }
  }
}

resource "azurerm_firewall" "this" {
  name                = var.name
  resource_group_name = var.resource_group_name
  location            = var.location
  sku_name            = "AZFW_VNet"
  sku_tier            = var.tier
  firewall_policy_id  = azurerm_firewall_policy.this.id
  zones               = var.zones
  tags                = var.tags

  ip_configuration {
    name                 = "first"
    subnet_id            = var.subnet_id
    public_ip_address_id = azurerm_public_ip.this.id
  }

  # It is not in the path before it lets the test pass.
  depends_on = [azurerm_firewall_policy_rule_collection_group.this]
}
