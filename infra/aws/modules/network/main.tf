# One network in one region: a subnet for each zone, who may reach the hosts in them, and which way they send. Only the
# jump host's subnet has a way to the Internet.

resource "aws_vpc" "this" {
  region     = var.region
  cidr_block = var.range
  tags       = merge(var.tags, { Name = var.name })
}

resource "aws_subnet" "hosts" {
  for_each = var.zones

  region                  = var.region
  vpc_id                  = aws_vpc.this.id
  availability_zone       = "${var.region}${each.key}"
  cidr_block              = each.value
  map_public_ip_on_launch = false
  tags                    = merge(var.tags, { Name = "${var.name}-${each.key}" })
}

# It has AWS's own route within the network, and those to peers; none leads out.
resource "aws_route_table" "hosts" {
  region = var.region
  vpc_id = aws_vpc.this.id
  tags   = merge(var.tags, { Name = var.name })
}

resource "aws_route_table_association" "hosts" {
  for_each = aws_subnet.hosts

  region         = var.region
  subnet_id      = each.value.id
  route_table_id = aws_route_table.hosts.id
}

# What AWS made with the network, and lets everything in it talk to everything; nothing of ours is in it.
resource "aws_default_security_group" "this" {
  region = var.region
  vpc_id = aws_vpc.this.id
  tags   = var.tags
}

locals {
  # From the jump host alone where there is one, else from where the user says.
  to_hosts = var.rules.jump_cidr == null ? var.rules.ssh_from : var.rules.jump_cidr

  lab = merge([
    for index, range in var.rules.lab_ranges : {
      "test-tcp-${index}" = { protocol = "tcp", from = var.rules.port, to = var.rules.port, range = range }
      "test-udp-${index}" = { protocol = "udp", from = var.rules.port, to = var.rules.port, range = range }
      # "Fragmentation needed": between regions fewer bytes fit into a packet than within one.
      "too-big-${index}" = { protocol = "icmp", from = 3, to = 4, range = range }
    }
  ]...)

  ssh_in  = { protocol = "tcp", from = 22, to = 22, range = local.to_hosts }
  jump_in = { protocol = "tcp", from = 22, to = 22, range = var.rules.ssh_from }

  groups = merge(
    { hosts = { in = merge(local.lab, { ssh = local.ssh_in }), out = local.lab } },
    var.jump == null ? {} : {
      jump = {
        in  = { ssh = local.jump_in }
        out = { for index, range in var.rules.lab_ranges : "ssh-${index}" => { protocol = "tcp", from = 22, to = 22, range = range } }
      }
    },
  )

  ins  = merge([for group, rules in local.groups : { for name, rule in rules.in : "${group}-${name}" => merge(rule, { group = group }) }]...)
  outs = merge([for group, rules in local.groups : { for name, rule in rules.out : "${group}-${name}" => merge(rule, { group = group }) }]...)
}

# A group lets nothing through, either way, but what the rules below say; and the answers to that.
resource "aws_security_group" "this" {
  for_each = local.groups

  region      = var.region
  name        = "${var.name}-${each.key}"
  description = "Of the lab ${var.tags.fathom-lab}: ${each.key}"
  vpc_id      = aws_vpc.this.id
  tags        = var.tags
}

resource "aws_vpc_security_group_ingress_rule" "this" {
  for_each = local.ins

  region            = var.region
  security_group_id = aws_security_group.this[each.value.group].id
  ip_protocol       = each.value.protocol
  from_port         = each.value.from
  to_port           = each.value.to
  cidr_ipv4         = each.value.range
  tags              = var.tags
}

resource "aws_vpc_security_group_egress_rule" "this" {
  for_each = local.outs

  region            = var.region
  security_group_id = aws_security_group.this[each.value.group].id
  ip_protocol       = each.value.protocol
  from_port         = each.value.from
  to_port           = each.value.to
  cidr_ipv4         = each.value.range
  tags              = var.tags
}

resource "aws_key_pair" "this" {
  region     = var.region
  key_name   = var.name
  public_key = var.ssh_public_key
  tags       = var.tags
}

# Its hosts' ends are in it, so that what is forgotten is found by a tag.
resource "aws_scheduler_schedule_group" "this" {
  region = var.region
  name   = var.name
  tags   = var.tags
}

# The jump host's own subnet, and the way in.
resource "aws_subnet" "jump" {
  count = var.jump == null ? 0 : 1

  region                  = var.region
  vpc_id                  = aws_vpc.this.id
  availability_zone       = "${var.region}${var.jump.zone}"
  cidr_block              = var.jump.cidr
  map_public_ip_on_launch = false
  tags                    = merge(var.tags, { Name = "${var.name}-jump" })
}

resource "aws_internet_gateway" "this" {
  count = var.jump == null ? 0 : 1

  region = var.region
  vpc_id = aws_vpc.this.id
  tags   = merge(var.tags, { Name = var.name })
}

resource "aws_route_table" "jump" {
  count = var.jump == null ? 0 : 1

  region = var.region
  vpc_id = aws_vpc.this.id
  tags   = merge(var.tags, { Name = "${var.name}-jump" })
}

resource "aws_route" "jump" {
  count = var.jump == null ? 0 : 1

  region                 = var.region
  route_table_id         = aws_route_table.jump[0].id
  destination_cidr_block = "0.0.0.0/0"
  gateway_id             = aws_internet_gateway.this[0].id
}

resource "aws_route_table_association" "jump" {
  count = var.jump == null ? 0 : 1

  region         = var.region
  subnet_id      = aws_subnet.jump[0].id
  route_table_id = aws_route_table.jump[0].id
}
