output "host" {
  description = "As a study's [[host]] wants it, without the way to it."
  value = {
    name    = var.name
    address = var.private_ip
    user    = var.host.user
  }
}

output "public_address" {
  value = one(aws_eip.this[*].public_ip)
}

output "id" {
  value = aws_instance.this.id
}
