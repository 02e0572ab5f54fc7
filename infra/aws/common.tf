# What every lab has; each root has this file as a link.

terraform {
  required_version = ">= 1.8"

  required_providers {
    aws = {
      source = "hashicorp/aws"
      # Any 6, and no 7: since 6 each resource says its own region.
      version = "~> 6"
    }
  }
}

provider "aws" {
  region = var.region
  # To a login of another account everything of a lab seems gone: `destroy` would forget it, and `apply` make it anew.
  allowed_account_ids = var.account == null ? null : [var.account]
}

variable "account" {
  description = "The account that the lab is in: the provider refuses a login of any other. `fathom cloud` sets it where `aws` tells it."
  type        = string
  default     = null

  validation {
    condition     = var.account == null || can(regex("^[0-9]{12}$", var.account))
    error_message = "Give the twelve digits of an account."
  }
}

variable "expires" {
  description = "When the lab is no longer needed, as in 2026-11-23T20:00:00Z: within a day. Hosts are stopped then."
  type        = string

  validation {
    condition     = can(formatdate("hhmm", var.expires)) && endswith(var.expires, "Z")
    error_message = "Write it in UTC, as in 2026-11-23T20:00:00Z."
  }
}

variable "user" {
  description = "The user that SSH logs in as: the one that the image gives the key to."
  type        = string
  default     = "ubuntu"

  validation {
    condition     = can(regex("^[a-z_][a-z0-9_-]{0,31}$", var.user))
    error_message = "Use up to 32 small letters, digits, - and _, a letter first."
  }
}

variable "size" {
  description = "The type of the hosts that measure, x86-64. T-types have credits, which disturb long runs."
  type        = string
  default     = "m7i.large"

  validation {
    condition     = can(regex("^[A-Za-z][A-Za-z0-9._-]*$", var.size))
    error_message = "Name a size, as m7i.large."
  }
}

# A warning and no error: an expired lab can be destroyed.
check "expires" {
  assert {
    condition = (
      timecmp(var.expires, plantimestamp()) > 0 &&
      timecmp(var.expires, timeadd(plantimestamp(), "24h")) <= 0
    )
    error_message = "`expires` is not within the next 24 hours."
  }
}

locals {
  tags = {
    fathom-lab     = "${var.name}-${local.lab}"
    fathom-expires = var.expires
  }

  host = {
    size    = var.size
    user    = var.user
    expires = var.expires
    ender   = aws_iam_role.ender.arn
  }
}

# As whom the scheduler of the platform stops hosts at `expires`: those of this lab, and nothing else.
resource "aws_iam_role" "ender" {
  name = "${var.name}-${local.lab}-ender"
  tags = local.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "scheduler.amazonaws.com" }
    }]
  })
}

resource "aws_iam_role_policy" "ender" {
  name = "stop-the-labs-hosts"
  role = aws_iam_role.ender.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "ec2:StopInstances"
      Resource  = "arn:aws:ec2:*:*:instance/*"
      Condition = { StringEquals = { "aws:ResourceTag/fathom-lab" = local.tags.fathom-lab } }
    }]
  })
}

module "jump" {
  source = "../modules/host"
  count  = var.public_jump ? 1 : 0

  name       = "${var.name}-jump"
  region     = var.region
  subnet_id  = module.network.jump.subnet_id
  groups     = module.network.jump.groups
  key        = module.network.key
  ends       = module.network.ends
  private_ip = cidrhost(local.jump_cidr, 10)
  # Nothing is measured on it.
  host   = merge(local.host, { size = "t3.micro" })
  public = true
  tags   = local.tags
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
