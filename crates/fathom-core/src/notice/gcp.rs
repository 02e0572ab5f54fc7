//! GCP: <https://cloud.google.com/compute/docs/metadata/getting-live-migration-notice>.

use super::{Cloud, Document, Instance, Notice, State, Unreadable, plain, word};
use serde_json::Value;

pub(super) fn event(bytes: &[u8]) -> Result<Document, Unreadable> {
    let wrong = |why: &dyn std::fmt::Display| Unreadable::new("GCP maintenance event", why);
    let text = std::str::from_utf8(bytes).map_err(|e| wrong(&e))?.trim();
    // A word that is not in the documentation is a notice all the same; a page of HTML is not.
    let is_word =
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    let what = word(text).filter(|_| is_word).ok_or_else(|| wrong(&"it is not one word"))?;
    let notices = if what == "NONE" {
        Vec::new()
    } else {
        vec![Notice {
            id: None,
            raw: Value::String(what.clone()),
            what,
            // The word stands there from a minute before until it is over, and does not say when that minute ends.
            state: State::Scheduled,
            resources: Vec::new(),
            not_before: None,
            duration_ns: None,
        }]
    };
    Ok(Document { cloud: Cloud::Gcp, notices })
}

pub(super) fn instance(zone: &[u8], machine_type: &[u8], id: &[u8]) -> Instance {
    let last = |bytes: &[u8]| plain(bytes).and_then(|path| path.rsplit('/').next().and_then(word));
    let zone = last(zone);
    // A zone is named after its region: us-central1-a lies in us-central1.
    let region = zone.as_deref().and_then(|zone| zone.rsplit_once('-')).map(|(region, _)| region.to_owned());
    Instance { region, zone, vm_size: last(machine_type), vm_id: plain(id), ..Instance::of(Cloud::Gcp) }
}
