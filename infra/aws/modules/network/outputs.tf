output "id" {
  value = aws_vpc.this.id
}

output "range" {
  value = aws_vpc.this.cidr_block
}

# Only when they are guarded: nothing is put into a group that has no rules yet, or a subnet without its routes.
output "subnets" {
  value      = { for zone, subnet in aws_subnet.hosts : zone => subnet.id }
  depends_on = [aws_route_table_association.hosts]
}

output "groups" {
  value      = [aws_security_group.this["hosts"].id]
  depends_on = [aws_vpc_security_group_ingress_rule.this, aws_vpc_security_group_egress_rule.this]
}

output "route_tables" {
  description = "Of the hosts and the jump host."
  value       = { hosts = aws_route_table.hosts.id, jump = one(aws_route_table.jump[*].id) }
}

output "jump" {
  value = var.jump == null ? null : {
    subnet_id = aws_subnet.jump[0].id
    groups    = [aws_security_group.this["jump"].id]
  }
  depends_on = [aws_route.jump, aws_route_table_association.jump]
}

output "key" {
  value = aws_key_pair.this.key_name
}

output "ends" {
  value = aws_scheduler_schedule_group.this.name
}
