//! Azure: Scheduled Events and the instance metadata service.

use super::Service;
use super::http::Client;
use fathom_core::notice::{Cloud, Document, Instance};
use std::time::Duration;

/// "Metadata: true" must be in every request, so that none is forwarded by accident.
const HEADERS: [(&str, &str); 1] = [("Metadata", "true")];
const INSTANCE: &str = "/metadata/instance?api-version=2025-04-07";
const EVENTS: &str = "/metadata/scheduledevents?api-version=2020-07-01";
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// The first request enables the service for this machine, which can take up to two minutes.
const FIRST_LIMIT: Duration = Duration::from_secs(150);
const LATER_LIMIT: Duration = Duration::from_secs(10);

pub(super) struct Azure {
    client: Client,
    tags: Vec<String>,
    enabled: bool,
}

impl Azure {
    pub(super) fn new(client: Client, tags: Vec<String>) -> Self {
        Self { client, tags, enabled: false }
    }
}

impl Service for Azure {
    fn cloud(&self) -> Cloud {
        Cloud::Azure
    }

    /// The shortest notice, of a preemption, is 30 s: it is seen with at least 20 s to go.
    fn every(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn instance(&mut self) -> Result<Instance, String> {
        let body = self.client.get(INSTANCE, &HEADERS, ANSWER_LIMIT)?.ok()?;
        Instance::azure(&body, &self.tags).map_err(|e| e.to_string())
    }

    fn announced(&mut self) -> Result<Document, String> {
        let limit = if self.enabled { LATER_LIMIT } else { FIRST_LIMIT };
        let body = self.client.get(EVENTS, &HEADERS, limit)?.ok()?;
        self.enabled = true;
        Document::azure(&body).map_err(|e| e.to_string())
    }
}
