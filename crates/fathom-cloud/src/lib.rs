//! Watches the metadata service of the cloud this host runs in, if it runs in one: once for which machine this is, then
//! politely for coming maintenance. `docs/cloud-notices.md` says what is asked, and how often.
//!
//! All of it happens in a thread of its own that no sample waits for, and no failure of it ends a run. It reads, and
//! never answers: to approve an event would change what is being measured.
//!
//! [`Settings::new`] checks what the user asked for; [`CloudWatch::start`] begins to watch and hands what it learns to a
//! sink, until it is dropped. What the documents mean is `fathom_core::notice`'s.

mod aws;
mod azure;
mod gcp;
mod http;
mod settings;

pub use settings::{Choice, Settings, SettingsError};

use aws::Aws;
use azure::Azure;
use fathom_core::event::EventKind;
use fathom_core::notice::{Cloud, Document, Instance, Notices};
use gcp::Gcp;
use http::Client;
use serde_json::Value;
use std::fmt;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A service that fails is asked less and less often, but never less often than this.
const LONGEST_WAIT: Duration = Duration::from_mins(5);
/// Failures in a row that are worth a word: a single one passes, as a host's own pause makes them.
const FAILURES_TO_TELL: u32 = 2;
/// How often a machine that does not say what it is gets asked.
const INSTANCE_ATTEMPTS: u32 = 3;

/// What the watch has to tell.
#[derive(Debug, Clone, PartialEq)]
pub enum CloudMessage {
    /// Which machine this is: the manifest's `cloud`. At most once.
    Instance(Value),
    /// A `maintenance` event, at the moment at which it became known.
    Maintenance(EventKind),
    /// A line for a `note` event.
    Note(String),
}

/// One cloud's metadata service.
trait Service {
    fn cloud(&self) -> Cloud;
    /// From the beginning of one look for maintenance to the next, unless the user says otherwise.
    fn every(&self) -> Duration;
    /// Asks which machine this is.
    fn instance(&mut self) -> Result<Instance, String>;
    /// Asks what is announced.
    fn announced(&mut self) -> Result<Document, String>;
}

type Sink = Box<dyn FnMut(CloudMessage) + Send>;
type Outlet = Arc<Mutex<Option<Sink>>>;

/// A watch over the metadata service. Dropped, it says nothing more, at once.
pub struct CloudWatch {
    outlet: Outlet,
    /// Closed by dropping it, which wakes the thread from its wait.
    _running: mpsc::Sender<()>,
}

impl CloudWatch {
    /// Begins to watch, in a thread of its own; `--cloud off` begins nothing. The sink must not block.
    pub fn start(settings: &Settings, sink: impl FnMut(CloudMessage) + Send + 'static) -> Self {
        let outlet: Outlet = Arc::new(Mutex::new(Some(Box::new(sink))));
        let (running, stopped) = mpsc::channel();
        if settings.choice != Choice::Off {
            let watch = Watch { settings: settings.clone(), outlet: Arc::clone(&outlet), stopped };
            if let Err(e) = thread::Builder::new().name("cloud".into()).spawn(move || watch.run()) {
                tell(&outlet, CloudMessage::Note(format!("cannot watch for cloud notices: {e}")));
            }
        }
        Self { outlet, _running: running }
    }
}

impl fmt::Debug for CloudWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloudWatch").finish_non_exhaustive()
    }
}

impl Drop for CloudWatch {
    fn drop(&mut self) {
        // The thread may be in the middle of a question that is answered in a minute. It is not waited for: without
        // its sink it can say nothing more, and it ends as soon as it looks.
        self.outlet.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

fn tell(outlet: &Outlet, message: CloudMessage) {
    if let Some(sink) = outlet.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        sink(message);
    }
}

/// What runs in the thread.
struct Watch {
    settings: Settings,
    outlet: Outlet,
    stopped: mpsc::Receiver<()>,
}

impl Watch {
    fn run(self) {
        let client = Client::new(&self.settings.url);
        let Some((mut service, known)) = self.service(&client) else {
            tracing::info!(url = self.settings.url, "no cloud's metadata service answers");
            return;
        };
        tracing::info!(cloud = %service.cloud(), url = self.settings.url, "watching for maintenance");
        let mut attempts = if known.is_some() { INSTANCE_ATTEMPTS } else { 0 };
        let mut notices = Notices::new();
        if let Some(instance) = known {
            self.tell_instance(&instance);
            notices.machine_is(instance.vm_name);
        }
        let every = self.settings.every.unwrap_or_else(|| service.every());
        let mut health = Health::default();
        loop {
            let began = Instant::now();
            if attempts < INSTANCE_ATTEMPTS {
                attempts += 1;
                if let Ok(instance) = service.instance() {
                    attempts = INSTANCE_ATTEMPTS;
                    self.tell_instance(&instance);
                    notices.machine_is(instance.vm_name);
                }
            }
            let note = match service.announced() {
                Ok(document) => {
                    for event in notices.update(document) {
                        tell(&self.outlet, CloudMessage::Maintenance(event));
                    }
                    health.worked(service.cloud())
                }
                Err(error) => health.failed(service.cloud(), &self.settings.url, &error),
            };
            if let Some(note) = note {
                tell(&self.outlet, CloudMessage::Note(note));
            }
            let next = began + health.wait(every);
            if self.stopped_before(next) {
                return;
            }
        }
    }

    /// The service to watch; with `auto` the first that says which machine this is, if any does.
    fn service(&self, client: &Client) -> Option<(Box<dyn Service>, Option<Instance>)> {
        let ask = |cloud: Cloud| -> Box<dyn Service> {
            let (client, tags) = (client.clone(), self.settings.tags.clone());
            match cloud {
                Cloud::Azure => Box::new(Azure::new(client, tags)),
                Cloud::Aws => Box::new(Aws::new(client, tags)),
                Cloud::Gcp => Box::new(Gcp::new(client, tags, self.settings.every)),
            }
        };
        match self.settings.choice {
            Choice::Azure => Some((ask(Cloud::Azure), None)),
            Choice::Aws => Some((ask(Cloud::Aws), None)),
            Choice::Gcp => Some((ask(Cloud::Gcp), None)),
            // AWS comes last: its protocol begins with a PUT, which nobody else should get.
            Choice::Auto if client.reachable() => {
                [Cloud::Gcp, Cloud::Azure, Cloud::Aws].into_iter().find_map(|cloud| {
                    let mut service = ask(cloud);
                    let instance = service.instance();
                    tracing::debug!(%cloud, error = instance.as_ref().err(), "is it this cloud's machine?");
                    Some((service, Some(instance.ok()?)))
                })
            }
            Choice::Auto | Choice::Off => None,
        }
    }

    fn tell_instance(&self, instance: &Instance) {
        if let Ok(value) = serde_json::to_value(instance) {
            tell(&self.outlet, CloudMessage::Instance(value));
        }
    }

    /// Waits until `next`; says whether the watch has ended.
    fn stopped_before(&self, next: Instant) -> bool {
        let wait = next.saturating_duration_since(Instant::now());
        self.stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout)
    }
}

/// Whether the service answers, and what is worth saying about that.
#[derive(Debug, Default)]
struct Health {
    has_worked: bool,
    failures: u32,
}

impl Health {
    /// It answered; gives a note where it had been said that it did not.
    fn worked(&mut self, cloud: Cloud) -> Option<String> {
        let was_told = self.has_worked && self.failures >= FAILURES_TO_TELL;
        *self = Self { has_worked: true, failures: 0 };
        was_told.then(|| format!("the {cloud} metadata service answers again"))
    }

    /// It did not; gives a note once an outage.
    fn failed(&mut self, cloud: Cloud, url: &str, error: &str) -> Option<String> {
        self.failures = self.failures.saturating_add(1);
        if self.failures != FAILURES_TO_TELL {
            return None;
        }
        Some(if self.has_worked {
            format!(
                "the {cloud} metadata service stopped answering, so maintenance notices may be missing from here on: {error}"
            )
        } else {
            format!(
                "no {cloud} metadata service answers at {url}, so this run has no maintenance notices: {error}; name the cloud with --cloud, or --cloud off"
            )
        })
    }

    /// From the beginning of the last look to the next.
    fn wait(&self, every: Duration) -> Duration {
        let doubled = every.saturating_mul(1 << self.failures.saturating_sub(1).min(16));
        // A failing service is left alone for minutes, unless it is asked even less often anyway.
        if self.failures == 0 { every } else { doubled.clamp(every, LONGEST_WAIT.max(every)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_service_is_polled_with_backoff() {
        let mut health = Health::default();
        let every = Duration::from_secs(10);
        let mut waits = vec![health.wait(every).as_secs()];
        for _ in 0..40 {
            health.failed(Cloud::Azure, "http://h", "it is away");
            waits.push(health.wait(every).as_secs());
        }
        assert_eq!(waits[..8], [10, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(waits.last(), Some(&300));
        assert_eq!(health.wait(Duration::from_hours(1)), Duration::from_hours(1));
    }

    #[test]
    fn outage_and_recovery_are_announced_once_each() {
        let mut health = Health::default();
        assert_eq!(health.worked(Cloud::Aws), None);
        assert_eq!(health.failed(Cloud::Aws, "http://h", "x"), None);
        assert_eq!(health.worked(Cloud::Aws), None, "one failure passes");
        let told: Vec<_> = (0..9).filter_map(|_| health.failed(Cloud::Aws, "http://h", "x")).collect();
        assert!(matches!(&told[..], [note] if note.contains("stopped answering")), "{told:?}");
        assert!(health.worked(Cloud::Aws).is_some_and(|note| note.contains("again")));
        assert_eq!(health.worked(Cloud::Aws), None);
    }

    #[test]
    fn unreachable_named_cloud_is_reported_once() {
        let mut health = Health::default();
        let told: Vec<_> = (0..9).filter_map(|_| health.failed(Cloud::Gcp, "http://h", "refused")).collect();
        assert!(
            matches!(&told[..], [note] if note.contains("http://h") && note.contains("--cloud off")),
            "{told:?}"
        );
    }
}
