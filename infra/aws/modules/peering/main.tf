# Two networks in two regions joined, and the routes from each to the other.

resource "aws_vpc_peering_connection" "this" {
  region      = var.left.region
  vpc_id      = var.left.id
  peer_vpc_id = var.right.id
  peer_region = var.right.region
  tags        = var.tags
}

resource "aws_vpc_peering_connection_accepter" "this" {
  region                    = var.right.region
  vpc_peering_connection_id = aws_vpc_peering_connection.this.id
  auto_accept               = true
  tags                      = var.tags
}

locals {
  routes = merge(
    { for name, table in var.left.route_tables : "left-${name}" => { region = var.left.region, table = table, to = var.right.range } },
    { for name, table in var.right.route_tables : "right-${name}" => { region = var.right.region, table = table, to = var.left.range } },
  )
}

resource "aws_route" "this" {
  for_each = local.routes

  region                    = each.value.region
  route_table_id            = each.value.table
  destination_cidr_block    = each.value.to
  vpc_peering_connection_id = aws_vpc_peering_connection_accepter.this.vpc_peering_connection_id
}
