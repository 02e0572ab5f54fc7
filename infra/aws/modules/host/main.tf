# One Linux host, and the hour at which the platform stops it.

# Ubuntu's own, the newest. Nothing is installed: `fathom study` copies its binary by SSH.
data "aws_ami" "this" {
  region      = var.region
  owners      = ["099720109477"]
  most_recent = true

  filter {
    name   = "name"
    values = ["ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-*"]
  }
}

resource "aws_instance" "this" {
  region                 = var.region
  ami                    = data.aws_ami.this.id
  instance_type          = var.host.size
  subnet_id              = var.subnet_id
  private_ip             = var.private_ip
  vpc_security_group_ids = var.groups
  key_name               = var.key
  placement_group        = var.placement_group
  tags                   = merge(var.tags, { Name = var.name })
  volume_tags            = merge(var.tags, { Name = var.name })

  metadata_options {
    http_endpoint = "enabled"
    http_tokens   = "required"
  }

  root_block_device {
    volume_type           = "gp3"
    volume_size           = 8
    encrypted             = true
    delete_on_termination = true
  }

  lifecycle {
    # A newer image is no reason to make a lab's hosts anew.
    ignore_changes = [ami]
  }
}

resource "aws_eip" "this" {
  count = var.public ? 1 : 0

  region   = var.region
  domain   = "vpc"
  instance = aws_instance.this.id
  tags     = merge(var.tags, { Name = var.name })
}

# The platform does it, so that it needs nothing of the host and no way to the Internet.
resource "aws_scheduler_schedule" "end" {
  region                       = var.region
  name                         = "${var.name}-end"
  group_name                   = var.ends
  schedule_expression          = "at(${formatdate("YYYY-MM-DD'T'hh:mm:ss", var.host.expires)})"
  schedule_expression_timezone = "UTC"

  flexible_time_window {
    mode = "OFF"
  }

  target {
    arn      = "arn:aws:scheduler:::aws-sdk:ec2:stopInstances"
    role_arn = var.host.ender
    input    = jsonencode({ InstanceIds = [aws_instance.this.id] })
  }
}
