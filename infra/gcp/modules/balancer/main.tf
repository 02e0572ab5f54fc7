# An internal passthrough Network Load Balancer in front of a host: no machine in between, the network itself rewrites
# nothing and chooses where packets go.

resource "google_compute_instance_group" "this" {
  name      = var.name
  zone      = var.zone
  network   = var.network
  instances = [var.backend]
}

resource "google_compute_region_health_check" "this" {
  name               = var.name
  region             = var.region
  check_interval_sec = 5
  timeout_sec        = 5

  tcp_health_check {
    port = var.port
  }
}

resource "google_compute_region_backend_service" "this" {
  name                  = var.name
  region                = var.region
  network               = var.network
  load_balancing_scheme = "INTERNAL"
  protocol              = "TCP"
  health_checks         = [google_compute_region_health_check.this.id]

  backend {
    group          = google_compute_instance_group.this.id
    balancing_mode = "CONNECTION"
  }
}

resource "google_compute_forwarding_rule" "this" {
  name                  = var.name
  region                = var.region
  network               = var.network
  subnetwork            = var.subnet
  load_balancing_scheme = "INTERNAL"
  ip_protocol           = "TCP"
  ip_address            = var.private_ip
  ports                 = [tostring(var.port)]
  backend_service       = google_compute_region_backend_service.this.id
  labels                = var.labels
}
