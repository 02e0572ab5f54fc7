# What do accelerated networking, a proximity placement group and an availability set do? (Accelerated Networking in Azure.)

variable "region" {
  type    = string
  default = "uksouth"
}

variable "rows" {
  description = "A pair of hosts for each row of the table. No zones: Azure has availability sets only without them."
  type = map(object({
    accelerated_networking = bool
    proximity_group        = bool
    availability_set       = bool
    mtu                    = optional(number, 1500)
  }))
  default = {
    an-off           = { accelerated_networking = false, proximity_group = false, availability_set = false }
    an-on            = { accelerated_networking = true, proximity_group = false, availability_set = false }
    an-on-group      = { accelerated_networking = true, proximity_group = true, availability_set = false }
    an-on-group-sets = { accelerated_networking = true, proximity_group = true, availability_set = true }
  }
}

variable "factors" {
  description = "Instead of `rows`: the levels of each factor, of which every combination is a row."
  type = object({
    accelerated_networking = optional(list(bool), [true])
    proximity_group        = optional(list(bool), [false])
    availability_set       = optional(list(bool), [false])
    mtu                    = optional(list(number), [1500])
  })
  default = null
}

locals {
  combinations = var.factors == null ? [] : [
    for has in setproduct(
      var.factors.accelerated_networking, var.factors.proximity_group, var.factors.availability_set, var.factors.mtu,
    ) : { accelerated_networking = has[0], proximity_group = has[1], availability_set = has[2], mtu = has[3] }
  ]

  rows = merge(var.factors == null ? var.rows : {}, {
    for has in local.combinations : join("-", [
      "an", has.accelerated_networking ? "on" : "off",
      "group", has.proximity_group ? "on" : "off",
      "set", has.availability_set ? "on" : "off",
      "mtu", has.mtu,
    ]) => has
  })

  lab            = "placement"
  range          = "10.65.0.0/16"
  lab_ranges     = [local.range]
  hosts_cidr     = "10.65.1.0/24"
  jump_cidr      = "10.65.0.0/24"
  jump_subnet_id = module.network.subnets["jump"]
  hosts          = module.pairs.hosts
  scenarios      = module.pairs.scenarios
}

module "network" {
  source = "../modules/network"

  name                = "${var.name}-placement"
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.region
  range               = local.range
  rules               = local.rules
  tags                = local.tags

  subnets = {
    jump  = { cidr = local.jump_cidr, kind = "jump" }
    hosts = { cidr = local.hosts_cidr, kind = "hosts" }
  }
}

module "pairs" {
  source = "../modules/pairs"

  name                = var.name
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.region
  rows                = local.rows
  subnet_id           = module.network.subnets["hosts"]
  cidr                = local.hosts_cidr
  host                = local.host
  tags                = local.tags
}
