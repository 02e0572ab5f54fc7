output "id" {
  value = google_compute_network.this.id
}

# Only when they are guarded, and when the jump host has its way.
output "subnets" {
  value      = { for name, subnet in google_compute_subnetwork.this : name => subnet.id }
  depends_on = [google_compute_firewall.this, google_compute_route.jump]
}
