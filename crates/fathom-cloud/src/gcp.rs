//! GCP: the metadata server, which answers a question when something has changed.

use super::Service;
use super::http::{Answer, Client};
use fathom_core::notice::{Cloud, Document, Instance, plain};
use std::time::Duration;

const FLAVOR: &str = "Metadata-Flavor";
const GOOGLE: &str = "Google";
const INSTANCE: &str = "/computeMetadata/v1/instance/";
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// How long the server is asked to hold a question that nothing has changed for.
const HOLD: Duration = Duration::from_mins(1);
/// Beyond the time for which it was asked to hold it.
const GRACE: Duration = Duration::from_secs(10);

pub(super) struct Gcp {
    client: Client,
    tags: Vec<String>,
    hold: Duration,
    /// What the server called the state that it told last.
    etag: Option<String>,
}

impl Gcp {
    pub(super) fn new(client: Client, tags: Vec<String>, every: Option<Duration>) -> Self {
        Self { client, tags, hold: every.unwrap_or(HOLD), etag: None }
    }

    fn get(&self, path: &str, limit: Duration) -> Result<Answer, String> {
        let answer = self.client.get(&format!("{INSTANCE}{path}"), &[(FLAVOR, GOOGLE)], limit)?;
        if answer.header(FLAVOR) == Some(GOOGLE) {
            Ok(answer)
        } else {
            // "If you don't see this header, the response might not be from the metadata server."
            Err(format!("its answer (HTTP status {}) has no {FLAVOR}: {GOOGLE}", answer.status))
        }
    }

    fn value(&self, path: &str) -> Result<Vec<u8>, String> {
        self.get(path, ANSWER_LIMIT)?.ok()
    }
}

impl Service for Gcp {
    fn cloud(&self) -> Cloud {
        Cloud::Gcp
    }

    /// The server does the waiting. This keeps one that answers at once from being asked in a tight loop.
    fn every(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn instance(&mut self) -> Result<Instance, String> {
        let (zone, machine_type, id) = (self.value("zone")?, self.value("machine-type")?, self.value("id")?);
        let mut instance = Instance::gcp(&zone, &machine_type, &id);
        for name in &self.tags {
            // Custom metadata: GCP shows a machine its labels nowhere.
            if name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
                && let Ok(value) = self.value(&format!("attributes/{name}"))
                && let Some(value) = plain(&value)
            {
                instance.tags.insert(name.clone(), value);
            }
        }
        Ok(instance)
    }

    fn announced(&mut self) -> Result<Document, String> {
        let answer = match &self.etag {
            // The first question is answered with how things stand.
            None => self.get("maintenance-event", ANSWER_LIMIT)?,
            Some(etag) => {
                let hold = self.hold.as_secs();
                let path =
                    format!("maintenance-event?wait_for_change=true&timeout_sec={hold}&last_etag={etag}");
                self.get(&path, self.hold + GRACE)?
            }
        };
        let etag =
            answer.header("ETag").filter(|tag| tag.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'));
        let etag = etag.map(str::to_owned);
        let document = Document::gcp(&answer.ok()?).map_err(|e| e.to_string())?;
        self.etag = etag;
        Ok(document)
    }
}
