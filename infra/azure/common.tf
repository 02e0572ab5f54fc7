# What every lab has; each root has this file as a link.

terraform {
  required_version = ">= 1.8"

  required_providers {
    azurerm = {
      source = "hashicorp/azurerm"
      # Any 5, and no 6.
      version = "~> 5"
    }
  }
}

provider "azurerm" {
  # azurerm 5 registers nothing by itself, and an empty subscription has none of these.
  resource_providers_to_register = ["Microsoft.Compute", "Microsoft.Network", "Microsoft.DevTestLab"]

  features {
    resource_group {
      # The group is the lab's own: `destroy` takes what a half-made lab left in it, too.
      prevent_deletion_if_contains_resources = false
    }
  }
}

variable "expires" {
  description = "When the lab is no longer needed, as in 2026-11-23T20:00:00Z: within a day. Hosts are deallocated then."
  type        = string

  validation {
    condition     = can(formatdate("hhmm", var.expires)) && endswith(var.expires, "Z")
    error_message = "Write it in UTC, as in 2026-11-23T20:00:00Z."
  }
}

variable "user" {
  description = "The user that SSH logs in as."
  type        = string
  default     = "azureuser"

  validation {
    condition     = can(regex("^[a-z_][a-z0-9_-]{0,31}$", var.user))
    error_message = "Use up to 32 small letters, digits, - and _, a letter first."
  }

  # "Disallowed values" of `adminUsername` in Microsoft's reference of virtual machines, as far as they have that shape.
  validation {
    condition = !contains([
      "a", "actuser", "adm", "admin", "admin1", "admin2", "administrator", "aspnet", "backup", "console", "david", "guest", "john",
      "owner", "root", "server", "sql", "support", "support_388945a0", "sys", "test", "test1", "test2", "test3", "user", "user1",
      "user2", "user3", "user4", "user5",
    ], var.user)
    error_message = "Azure takes no user of that name. Use another, as azureuser."
  }
}

variable "size" {
  description = "The size of the hosts that measure. B-series hosts have credits, which disturb long runs."
  type        = string
  default     = "Standard_D2s_v5"

  validation {
    condition     = can(regex("^[A-Za-z][A-Za-z0-9._-]*$", var.size))
    error_message = "Name a size, as Standard_D2s_v5."
  }
}

# A warning and no error: an expired lab can be destroyed.
check "expires" {
  assert {
    condition = (
      timecmp(var.expires, plantimestamp()) > 0 &&
      timecmp(var.expires, timeadd(plantimestamp(), "24h")) <= 0
    )
    error_message = "`expires` is not within the next 24 hours. Hosts are deallocated at its time of day, whatever the day."
  }
}

locals {
  tags = {
    fathom-lab     = "${var.name}-${local.lab}"
    fathom-expires = var.expires
  }

  host = {
    size           = var.size
    user           = var.user
    ssh_public_key = var.ssh_public_key
    expires        = var.expires
  }
}

resource "azurerm_resource_group" "lab" {
  name     = "${var.name}-${local.lab}"
  location = var.region
  tags     = local.tags
}

module "jump" {
  source = "../modules/host"
  count  = var.public_jump ? 1 : 0

  name                = "${var.name}-jump"
  resource_group_name = azurerm_resource_group.lab.name
  location            = var.region
  subnet_id           = local.jump_subnet_id
  private_ip          = cidrhost(local.jump_cidr, 10)
  # Nothing is measured on it.
  host                   = merge(local.host, { size = "Standard_B2ats_v2" })
  accelerated_networking = false
  public                 = true
  tags                   = local.tags
}

# What `fathom study from-outputs` makes a study's hosts and scenarios from.
output "fathometer" {
  value = {
    format = 1
    lab    = "${var.name}-${local.lab}"
    jump   = one([for jump in module.jump : { address = jump.public_address, user = var.user }])
    hosts  = local.hosts
    scenarios = [for scenario in local.scenarios : merge(scenario, {
      port = var.port
      tags = merge(scenario.tags, { lab = local.lab, size = var.size })
    })]
  }
}
