output "host" {
  description = "As a study's [[host]] wants it, without the way to it."
  value = {
    name    = var.name
    address = var.private_ip
    user    = var.host.user
  }
}

output "public_address" {
  value = one(google_compute_address.this[*].address)
}

output "id" {
  value = google_compute_instance.this.self_link
}
