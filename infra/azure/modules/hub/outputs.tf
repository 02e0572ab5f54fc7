output "id" {
  value = module.network.id
}

output "name" {
  value = module.network.name
}

output "jump_subnet_id" {
  value = module.network.subnets["jump"]
}

output "routes" {
  description = "By which the client's network sends to the spokes."
  value       = { for way, hop in local.hops : "to-${way}" => merge(hop, { to = var.spokes[way] }) }
}

output "hosts" {
  value = values(module.server)[*].host
}

output "scenarios" {
  description = "From the host named client to each server."
  value = [for name, server in local.servers : {
    label   = name
    from    = "client"
    to      = name
    via     = local.via[server.way]
    address = null
    tags = merge(
      { region = var.location, way = server.way, zone-from = var.zones[0], zone-to = server.zone },
      server.way == "firewall" ? {
        firewall-tier                = var.firewall.tier
        firewall-rules-before        = tostring(var.firewall.rules_before)
        firewall-intrusion-detection = var.firewall.intrusion_detection
      } : {},
    )
  }]
}
