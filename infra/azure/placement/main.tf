# What do accelerated networking, a proximity placement group and an availability set do? (Accelerated Networking in Azure.)

variable "region" {
  type    = string
  default = "uksouth"

  validation {
    condition     = can(regex("^[A-Za-z][A-Za-z0-9]*([ -][A-Za-z0-9]+)*$", var.region))
    error_message = "Name a region, as in uksouth."
  }
}

# Both are maps of texts, which keep whatever they are given: an object drops what it does not know, and says nothing.
variable "rows" {
  description = "A pair of hosts for each row of the table. No zones: Azure has availability sets only without them."
  type        = map(map(string))
  default = {
    an-off           = { accelerated_networking = false, proximity_group = false, availability_set = false }
    an-on            = { accelerated_networking = true, proximity_group = false, availability_set = false }
    an-on-group      = { accelerated_networking = true, proximity_group = true, availability_set = false }
    an-on-group-sets = { accelerated_networking = true, proximity_group = true, availability_set = true }
  }

  validation {
    condition = alltrue([
      for has in values(var.rows) : alltrue([
        for factor in ["accelerated_networking", "proximity_group", "availability_set"] : can(tobool(has[factor]) ? 1 : 0)
      ]) && length(setsubtract(keys(has), ["accelerated_networking", "proximity_group", "availability_set", "mtu"])) == 0
    ])
    error_message = "A row has accelerated_networking, proximity_group and availability_set, true or false, may have mtu, and nothing else."
  }
}

variable "factors" {
  description = "Instead of `rows`: the levels of each factor, of which every combination is a row."
  type        = map(list(string))
  default     = null

  validation {
    condition = alltrue([
      for factor in keys(coalesce(var.factors, {})) :
      contains(["accelerated_networking", "proximity_group", "availability_set", "mtu"], factor)
    ])
    error_message = "The lab knows the factors accelerated_networking, proximity_group, availability_set and mtu, and no others."
  }

  validation {
    condition = alltrue([
      for factor, levels in coalesce(var.factors, {}) : try(
        length(levels) > 0 && length(distinct(levels)) == length(levels)
        && alltrue([for level in levels : factor == "mtu" ? tonumber(level) != null : tobool(level) != null]),
      false)
    ])
    error_message = "Give each factor its levels, each once: true, false, or both; of mtu numbers."
  }
}

locals {
  factors = merge({
    accelerated_networking = ["true"]
    proximity_group        = ["false"]
    availability_set       = ["false"]
    mtu                    = ["1500"]
  }, var.factors)

  combinations = var.factors == null ? [] : [
    for has in setproduct(
      local.factors.accelerated_networking, local.factors.proximity_group, local.factors.availability_set, local.factors.mtu,
    ) : { accelerated_networking = has[0], proximity_group = has[1], availability_set = has[2], mtu = has[3] }
  ]

  table = merge(var.factors == null ? var.rows : tomap({}), {
    for has in local.combinations : join("-", [
      "an", tobool(has.accelerated_networking) ? "on" : "off",
      "group", tobool(has.proximity_group) ? "on" : "off",
      "set", tobool(has.availability_set) ? "on" : "off",
      "mtu", has.mtu,
    ]) => has
  })

  rows = {
    for row, has in local.table : row => {
      accelerated_networking = tobool(has.accelerated_networking)
      proximity_group        = tobool(has.proximity_group)
      availability_set       = tobool(has.availability_set)
      mtu                    = tonumber(lookup(has, "mtu", 1500))
    }
  }

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
