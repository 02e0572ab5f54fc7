//! AWS: <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/monitoring-instances-status-check_sched.html> and
//! <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-identity-documents.html>.

use super::{Cloud, Document, Instance, MAX_NOTICES, Notice, State, Unreadable, date, field};
use serde_json::Value;

pub(super) fn events(bytes: &[u8]) -> Result<Document, Unreadable> {
    let wrong = |why: &dyn std::fmt::Display| Unreadable::new("list of AWS maintenance events", why);
    let list = if bytes.trim_ascii().is_empty() {
        Value::Array(Vec::new())
    } else {
        serde_json::from_slice(bytes).map_err(|e| wrong(&e))?
    };
    let events = list.as_array().ok_or_else(|| wrong(&"it is not a list"))?;
    let notices = events.iter().filter(|event| ahead(event)).take(MAX_NOTICES).map(event).collect();
    Ok(Document { cloud: Cloud::Aws, notices })
}

/// AWS keeps an event on its list for a while after it is over or called off; that it is, stands in its state.
fn ahead(event: &Value) -> bool {
    let over =
        |state: String| matches!(state.to_ascii_lowercase().as_str(), "completed" | "canceled" | "cancelled");
    event.is_object() && !field(event, "State").is_some_and(over)
}

fn event(event: &Value) -> Notice {
    Notice {
        id: field(event, "EventId"),
        what: field(event, "Code").unwrap_or_else(|| "unknown".to_owned()),
        // `active` is all that AWS says, before the window and in it: that work has begun is told by nobody.
        state: State::Scheduled,
        resources: Vec::new(),
        not_before: field(event, "NotBefore").as_deref().and_then(date::parse),
        // NotAfter ends the window in which it may begin. It is no duration, and stands in the notice itself.
        duration_ns: None,
        raw: event.clone(),
    }
}

pub(super) fn identity(bytes: &[u8]) -> Result<Instance, Unreadable> {
    let wrong = |why: &dyn std::fmt::Display| Unreadable::new("AWS instance identity document", why);
    let document: Value = serde_json::from_slice(bytes).map_err(|e| wrong(&e))?;
    let id = field(&document, "instanceId").ok_or_else(|| wrong(&"it has no instanceId"))?;
    Ok(Instance {
        region: field(&document, "region"),
        zone: field(&document, "availabilityZone"),
        vm_size: field(&document, "instanceType"),
        vm_id: Some(id),
        ..Instance::of(Cloud::Aws)
    })
}
