# One network for all regions of a lab, who may reach the hosts in it, and which way they send. Nothing leads out but the
# jump host's own route.

resource "google_compute_network" "this" {
  name                            = var.name
  auto_create_subnetworks         = false
  delete_default_routes_on_create = true
  mtu                             = var.mtu
}

resource "google_compute_subnetwork" "this" {
  for_each = var.subnets

  name                     = "${var.name}-${each.key}"
  region                   = each.value.region
  network                  = google_compute_network.this.id
  ip_cidr_range            = each.value.cidr
  private_ip_google_access = false
}

# By a tag that the jump host alone bears.
resource "google_compute_route" "jump" {
  count = contains(keys(var.subnets), "jump") ? 1 : 0

  name             = "${var.name}-jump"
  network          = google_compute_network.this.id
  dest_range       = "0.0.0.0/0"
  next_hop_gateway = "default-internet-gateway"
  tags             = ["jump"]
}

locals {
  # From the jump host alone where there is one, else from where the user says.
  to_hosts = var.rules.jump_cidr == null ? var.rules.ssh_from : var.rules.jump_cidr

  allowed = merge(
    {
      test-tcp = { to = "hosts", protocol = "tcp", port = var.rules.port, sources = var.rules.lab_ranges }
      test-udp = { to = "hosts", protocol = "udp", port = var.rules.port, sources = var.rules.lab_ranges }
      ssh      = { to = "hosts", protocol = "tcp", port = 22, sources = [local.to_hosts] }
    },
    var.rules.jump_cidr == null ? {} : {
      jump = { to = "jump", protocol = "tcp", port = 22, sources = [var.rules.ssh_from] }
    },
    # Google's own, from which it asks whether what is behind a balancer answers.
    var.health_checks ? {
      health = { to = "hosts", protocol = "tcp", port = var.rules.port, sources = ["35.191.0.0/16", "130.211.0.0/22"] }
    } : {},
  )
}

# What no rule lets in stays out: a network has no others of its own.
resource "google_compute_firewall" "this" {
  for_each = local.allowed

  name          = "${var.name}-${each.key}"
  network       = google_compute_network.this.id
  direction     = "INGRESS"
  source_ranges = each.value.sources
  target_tags   = [each.value.to]

  allow {
    protocol = each.value.protocol
    ports    = [tostring(each.value.port)]
  }
}
