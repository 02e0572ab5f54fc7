output "hosts" {
  value = values(module.host)[*].host
}

output "scenarios" {
  value = [for row, has in var.rows : {
    label = row, from = "${row}-client", to = "${row}-server", via = null, address = null
    tags = {
      region                 = var.location
      accelerated-networking = tostring(has.accelerated_networking)
      proximity-group        = tostring(has.proximity_group)
      availability-set       = tostring(has.availability_set)
      mtu                    = tostring(has.mtu)
    }
  }]
}
