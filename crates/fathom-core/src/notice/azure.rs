//! Azure: <https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events> and
//! <https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service>.

use super::{Cloud, Document, Instance, MAX_NOTICES, Notice, State, Unreadable, date, field, word};
use serde_json::Value;

/// What else Azure tells of where a machine stands: its name there, ours, by JSON pointer below `compute`.
const MORE: [(&str, &str); 5] = [
    ("/platformFaultDomain", "fault_domain"),
    ("/platformUpdateDomain", "update_domain"),
    // Of a scale set; a proximity placement group is told nowhere.
    ("/placementGroupId", "scale_set_placement_group"),
    ("/host/id", "host_id"),
    ("/securityProfile/securityType", "security_type"),
];

pub(super) fn events(bytes: &[u8]) -> Result<Document, Unreadable> {
    let wrong = |why: &dyn std::fmt::Display| Unreadable::new("list of Azure scheduled events", why);
    let document: Value = serde_json::from_slice(bytes).map_err(|e| wrong(&e))?;
    let events =
        document.get("Events").and_then(Value::as_array).ok_or_else(|| wrong(&"it has no Events"))?;
    let notices = events.iter().filter(|event| event.is_object()).take(MAX_NOTICES).map(event).collect();
    Ok(Document { cloud: Cloud::Azure, notices })
}

fn event(event: &Value) -> Notice {
    let started = field(event, "EventStatus").is_some_and(|status| status.eq_ignore_ascii_case("Started"));
    let resources = match event.get("Resources") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).filter_map(word).collect(),
        Some(Value::String(name)) => word(name).into_iter().collect(),
        _ => Vec::new(),
    };
    Notice {
        id: field(event, "EventId"),
        what: field(event, "EventType").unwrap_or_else(|| "unknown".to_owned()),
        state: if started { State::Started } else { State::Scheduled },
        resources,
        not_before: field(event, "NotBefore").as_deref().and_then(date::parse),
        // -1 is Azure's word for unknown, and no other negative number means anything.
        duration_ns: field(event, "DurationInSeconds")
            .and_then(|seconds| seconds.parse::<u64>().ok())
            .and_then(|seconds| seconds.checked_mul(1_000_000_000)),
        raw: event.clone(),
    }
}

pub(super) fn instance(bytes: &[u8], wanted: &[String]) -> Result<Instance, Unreadable> {
    let wrong = |why: &dyn std::fmt::Display| Unreadable::new("Azure instance metadata", why);
    let document: Value = serde_json::from_slice(bytes).map_err(|e| wrong(&e))?;
    let compute =
        document.get("compute").filter(|c| c.is_object()).ok_or_else(|| wrong(&"it has no compute"))?;
    let mut instance = Instance {
        region: field(compute, "location"),
        zone: field(compute, "zone"),
        physical_zone: field(compute, "physicalZone"),
        vm_size: field(compute, "vmSize"),
        vm_id: field(compute, "vmId"),
        vm_name: field(compute, "name"),
        ..Instance::of(Cloud::Azure)
    };
    for (theirs, ours) in MORE {
        if let Some(text) = compute.pointer(theirs).and_then(Value::as_str).and_then(word) {
            instance.more.insert(ours, text);
        }
    }
    for tag in compute.get("tagsList").and_then(Value::as_array).into_iter().flatten() {
        if let Some(name) = field(tag, "name")
            && wanted.iter().any(|w| w.eq_ignore_ascii_case(&name))
        {
            instance.tags.insert(name, field(tag, "value").unwrap_or_default());
        }
    }
    Ok(instance)
}
