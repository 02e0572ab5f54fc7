output "address" {
  value = var.private_ip
}
