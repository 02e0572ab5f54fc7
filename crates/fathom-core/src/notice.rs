//! What a cloud's metadata service says: which machine this is, and what maintenance is coming.
//!
//! Pure: bytes in, values out. The three clouds' documents are read as tolerantly as `docs/cloud-notices.md` describes,
//! because a notice that is worded a little differently is still a notice. [`Notices`] turns a sequence of documents
//! into the few events worth recording: a notice appears, changes, disappears.

mod aws;
mod azure;
mod date;
mod gcp;
#[cfg(test)]
mod tests;
mod tracker;

pub use tracker::Notices;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// Notices taken from one document; a longer list is cut. Clouds announce a handful.
const MAX_NOTICES: usize = 256;
/// Characters kept of a value that goes into the recording by itself. The longest documented one (a host id) has 64.
const MAX_WORD: usize = 256;

/// A cloud whose metadata service is understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cloud {
    /// Microsoft Azure: Scheduled Events and the instance metadata service.
    Azure,
    /// Amazon Web Services: `IMDSv2`.
    Aws,
    /// Google Cloud: the metadata server.
    Gcp,
}

impl Cloud {
    /// The name used in recordings and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Azure => "azure",
            Self::Aws => "aws",
            Self::Gcp => "gcp",
        }
    }
}

/// The clouds by the codes that reflectors send.
const CODES: [(u8, Cloud); 3] = [(1, Cloud::Azure), (2, Cloud::Aws), (3, Cloud::Gcp)];
/// The clouds' words for what will be done, by the codes that reflectors send.
const WORDS: [(u8, &str); 12] = [
    (1, "Freeze"),
    (2, "Reboot"),
    (3, "Redeploy"),
    (4, "Preempt"),
    (5, "Terminate"),
    (6, "instance-reboot"),
    (7, "system-reboot"),
    (8, "system-maintenance"),
    (9, "instance-retirement"),
    (10, "instance-stop"),
    (11, "MIGRATE_ON_HOST_MAINTENANCE"),
    (12, "TERMINATE_ON_HOST_MAINTENANCE"),
];

/// The cloud's word of a code; `unknown` where it has none.
pub fn word_of(code: u8) -> &'static str {
    WORDS.iter().find(|(of, _)| *of == code).map_or("unknown", |(_, word)| word)
}

/// The code of a cloud's word; 0 where it has none.
pub fn code_of(word: &str) -> u8 {
    WORDS.iter().find(|(_, of)| *of == word).map_or(0, |(code, _)| *code)
}

impl Cloud {
    /// The cloud of a code.
    pub fn of_code(code: u8) -> Option<Self> {
        CODES.iter().find(|(of, _)| *of == code).map(|(_, cloud)| *cloud)
    }

    /// The code of a cloud's name; 0 where it has none.
    pub fn code_of(name: &str) -> u8 {
        CODES.iter().find(|(_, cloud)| cloud.name() == name).map_or(0, |(code, _)| *code)
    }
}

impl fmt::Display for Cloud {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How far an announced maintenance is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Announced.
    Scheduled,
    /// Under way. Only Azure says so.
    Started,
    /// No longer announced: over, or called off. The clouds do not say which.
    Gone,
}

impl State {
    /// The name used in recordings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Started => "started",
            Self::Gone => "gone",
        }
    }
}

/// One announced maintenance, as one document has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    /// The cloud's name for it; GCP gives none. Azure may change it between states.
    pub id: Option<String>,
    /// What will be done, in the cloud's word; `unknown` where it names nothing.
    pub what: String,
    /// How far it is: [`State::Scheduled`] or [`State::Started`].
    pub state: State,
    /// The machines it concerns, by the cloud's names for them; empty where it means this machine alone.
    pub resources: Vec<String>,
    /// When it may begin, UTC; `None`: the cloud does not say (Azure stops saying once it has started).
    pub not_before: Option<Timestamp>,
    /// How long it is expected to last, in ns; `None`: unknown. 0: no interruption is expected.
    pub duration_ns: Option<u64>,
    /// The notice as the service gave it.
    pub raw: Value,
}

/// Everything that a cloud announces at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Whose it is.
    pub cloud: Cloud,
    /// What it announces, in the cloud's order.
    pub notices: Vec<Notice>,
}

impl Document {
    /// Reads Azure's Scheduled Events (api-version 2020-07-01).
    pub fn azure(bytes: &[u8]) -> Result<Self, Unreadable> {
        azure::events(bytes)
    }

    /// Reads AWS's `events/maintenance/scheduled`. An empty body is an empty list.
    pub fn aws(bytes: &[u8]) -> Result<Self, Unreadable> {
        aws::events(bytes)
    }

    /// Reads GCP's `maintenance-event`: one word.
    pub fn gcp(bytes: &[u8]) -> Result<Self, Unreadable> {
        gcp::event(bytes)
    }
}

/// Which machine this is, as the cloud says. What it leaves out, or gives as an empty string, is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Instance {
    /// The cloud.
    pub provider: Cloud,
    /// Region (Azure `location`).
    pub region: Option<String>,
    /// Availability zone. Azure's and AWS's are logical: the same zone has other names in other subscriptions.
    pub zone: Option<String>,
    /// Physical zone (Azure `physicalZone`, AWS zone id): the same for everybody. GCP has none.
    pub physical_zone: Option<String>,
    /// Size of the machine in the cloud's words.
    pub vm_size: Option<String>,
    /// The cloud's id of the machine.
    pub vm_id: Option<String>,
    /// The name under which Azure's notices list this machine (`Resources`); the other clouds' concern it alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vm_name: Option<String>,
    /// The tags that the user asked for by name, and no others: tags may hold secrets.
    pub tags: BTreeMap<String, String>,
    /// What only one cloud has, by the recording's names.
    #[serde(flatten)]
    pub more: BTreeMap<&'static str, String>,
}

impl Instance {
    /// A machine of which nothing is known yet.
    pub fn of(provider: Cloud) -> Self {
        Self {
            provider,
            region: None,
            zone: None,
            physical_zone: None,
            vm_size: None,
            vm_id: None,
            vm_name: None,
            tags: BTreeMap::new(),
            more: BTreeMap::new(),
        }
    }

    /// Reads Azure's `/metadata/instance` (api-version 2025-04-07), taking the tags named in `wanted` and no others.
    /// Azure does not tell upper from lower case in the name of a tag.
    pub fn azure(bytes: &[u8], wanted: &[String]) -> Result<Self, Unreadable> {
        azure::instance(bytes, wanted)
    }

    /// Reads AWS's instance identity document, which has neither zone id nor tags.
    pub fn aws(bytes: &[u8]) -> Result<Self, Unreadable> {
        aws::identity(bytes)
    }

    /// Puts GCP's three answers together, each a plain text: `instance/zone` and `instance/machine-type` (paths whose
    /// last part counts) and `instance/id`.
    pub fn gcp(zone: &[u8], machine_type: &[u8], id: &[u8]) -> Self {
        gcp::instance(zone, machine_type, id)
    }
}

/// A document that is not what it should be; says why in one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(String);

impl Unreadable {
    fn new(what: &str, why: impl fmt::Display) -> Self {
        Self(format!("the answer is no {what}: {why}"))
    }
}

/// A value in plain text, as AWS and GCP answer for one field. `None`: empty, or no text.
pub fn plain(bytes: &[u8]) -> Option<String> {
    word(std::str::from_utf8(bytes).ok()?)
}

/// A text that can stand in a recording and on a terminal: trimmed, of bounded length, without control characters.
/// Clouds write an absent value as an empty string.
fn word(text: &str) -> Option<String> {
    let kept: String = text.trim().chars().filter(|c| !c.is_control()).take(MAX_WORD).collect();
    (!kept.is_empty()).then_some(kept)
}

/// A field that is a text, or a number where one cloud's documentation has numbers and its service texts.
fn field(object: &Value, name: &str) -> Option<String> {
    match object.get(name)? {
        Value::String(text) => word(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
