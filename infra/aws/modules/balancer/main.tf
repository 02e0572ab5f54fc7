# A Network Load Balancer inside a network, in front of hosts. It has a node in one zone.

resource "aws_lb" "this" {
  region             = var.region
  name               = var.name
  load_balancer_type = "network"
  internal           = true
  security_groups    = var.groups
  # The node sends into other zones, too.
  enable_cross_zone_load_balancing = true
  tags                             = var.tags

  subnet_mapping {
    subnet_id            = var.subnet_id
    private_ipv4_address = var.private_ip
  }
}

resource "aws_lb_target_group" "this" {
  region             = var.region
  name               = var.name
  vpc_id             = var.network_id
  target_type        = "instance"
  protocol           = "TCP"
  port               = var.port
  preserve_client_ip = true
  tags               = var.tags

  health_check {
    protocol = "TCP"
    interval = 10
    timeout  = 5
  }
}

resource "aws_lb_target_group_attachment" "this" {
  for_each = var.backends

  region           = var.region
  target_group_arn = aws_lb_target_group.this.arn
  target_id        = each.value
  port             = var.port
}

resource "aws_lb_listener" "this" {
  region                   = var.region
  load_balancer_arn        = aws_lb.this.arn
  protocol                 = "TCP"
  port                     = var.port
  tcp_idle_timeout_seconds = var.idle_timeout_seconds
  tags                     = var.tags

  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.this.arn
  }
}
