# One Linux host, and its end: it switches itself off at `expires`, and the platform stops it a day after its start whatever
# the host does. (The platform's own end cannot be put off without making the host anew.)

resource "google_compute_address" "this" {
  count = var.public ? 1 : 0

  name   = var.name
  region = join("-", slice(split("-", var.zone), 0, 2))
  labels = var.labels
}

resource "google_compute_instance" "this" {
  name         = var.name
  zone         = var.zone
  machine_type = var.host.size
  tags         = [var.kind]
  labels       = var.labels

  boot_disk {
    auto_delete = true

    # Ubuntu's own. Nothing is installed: `fathom study` copies its binary by SSH.
    initialize_params {
      image  = "ubuntu-os-cloud/ubuntu-2404-lts-amd64"
      type   = "pd-balanced"
      size   = 10
      labels = var.labels
    }
  }

  network_interface {
    subnetwork = var.subnet
    network_ip = var.private_ip
    nic_type   = "GVNIC"

    dynamic "access_config" {
      for_each = google_compute_address.this
      content {
        nat_ip = access_config.value.address
      }
    }
  }

  metadata = {
    ssh-keys               = "${var.host.user}:${var.host.ssh_public_key}"
    block-project-ssh-keys = "true"
    enable-oslogin         = "FALSE"
    fathom-expires         = var.host.expires
    startup-script         = file("${path.module}/end.sh")
  }

  scheduling {
    automatic_restart           = false
    on_host_maintenance         = "MIGRATE"
    instance_termination_action = "STOP"

    max_run_duration {
      seconds = 86400
    }
  }

  shielded_instance_config {
    enable_vtpm                 = true
    enable_integrity_monitoring = true
  }
}
