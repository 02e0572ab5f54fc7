use super::*;
use crate::event::EventKind;
use proptest::prelude::*;
use serde_json::json;

/// Azure's documented sample of a freeze; its weekday is wrong, as in the documentation.
const FREEZE: &str = r#"{"DocumentIncarnation":2,"Events":[{"EventId":"C7061BAC-AFDC-4513-B24B-AA5F13A16123",
    "EventStatus":"Scheduled","EventType":"Freeze","ResourceType":"VirtualMachine","Resources":["WestNO_0"],
    "NotBefore":"Mon, 11 Apr 2026 22:26:58 GMT","Description":"Virtual machine is being paused because of a memory-preserving Live Migration operation.",
    "EventSource":"Platform","DurationInSeconds":5}]}"#;
const START: &str = "2026-04-11T22:26:58Z";

/// The sample with some of its fields replaced.
fn freeze(changes: &[(&str, Value)]) -> Document {
    let mut document: Value = serde_json::from_str(FREEZE).unwrap();
    for (name, value) in changes {
        document["Events"][0][*name] = value.clone();
    }
    Document::azure(document.to_string().as_bytes()).unwrap()
}

/// State, id and start of each event.
fn said(events: &[EventKind]) -> Vec<(String, Option<String>, Option<Timestamp>)> {
    let one = |event: &EventKind| match event {
        EventKind::Maintenance { state, id, not_before, .. } => (state.clone(), id.clone(), *not_before),
        other => panic!("{other:?}"),
    };
    events.iter().map(one).collect()
}

fn states(events: &[EventKind]) -> Vec<String> {
    said(events).into_iter().map(|(state, ..)| state).collect()
}

#[test]
fn azure_freeze_parses_both_date_forms() {
    for date in ["Mon, 11 Apr 2026 22:26:58 GMT", "2026-04-11T22:26:58Z"] {
        let document = freeze(&[("NotBefore", date.into())]);
        let [notice] = &document.notices[..] else { panic!("{document:?}") };
        assert_eq!(notice.id.as_deref(), Some("C7061BAC-AFDC-4513-B24B-AA5F13A16123"));
        assert_eq!((notice.what.as_str(), notice.state), ("Freeze", State::Scheduled));
        assert_eq!(notice.resources, ["WestNO_0"]);
        assert_eq!(
            (notice.not_before, notice.duration_ns),
            (Some(START.parse().unwrap()), Some(5_000_000_000))
        );
        assert_eq!(notice.raw["EventSource"], "Platform");
    }
}

#[test]
fn azures_duration_may_be_unknown_none_or_absent() {
    for (seconds, ns) in [
        (json!(-1), None),
        (json!(0), Some(0)),
        (json!(""), None),
        (json!("9"), Some(9_000_000_000)),
        (Value::Null, None),
    ] {
        assert_eq!(freeze(&[("DurationInSeconds", seconds.clone())]).notices[0].duration_ns, ns, "{seconds}");
    }
}

#[test]
fn freeze_reports_only_state_changes() {
    let mut notices = Notices::new();
    let id = Some("C7061BAC-AFDC-4513-B24B-AA5F13A16123".to_owned());
    let scheduled = notices.update(freeze(&[]));
    assert_eq!(said(&scheduled), [("scheduled".to_owned(), id.clone(), Some(START.parse().unwrap()))]);
    let EventKind::Maintenance { cloud, what, duration_ns, notice, .. } = &scheduled[0] else { panic!() };
    assert_eq!((cloud.as_str(), what.as_str(), *duration_ns), ("azure", "Freeze", Some(5_000_000_000)));
    assert_eq!(notice["Resources"], json!(["WestNO_0"]));
    // The same again, with the other form of date and another rounding of it.
    assert!(notices.update(freeze(&[("NotBefore", "2026-04-11T22:26:59Z".into())])).is_empty());
    let started = [("EventStatus", json!("Started")), ("NotBefore", json!(""))];
    assert_eq!(said(&notices.update(freeze(&started))), [("started".to_owned(), id.clone(), None)]);
    assert!(notices.update(freeze(&started)).is_empty());
    let none = || Document::azure(br#"{"DocumentIncarnation":3,"Events":[]}"#).unwrap();
    assert_eq!(said(&notices.update(none())), [("gone".to_owned(), id, None)]);
    assert!(notices.update(none()).is_empty());
}

#[test]
fn state_change_under_new_id_is_same_notice() {
    let mut notices = Notices::new();
    notices.update(freeze(&[]));
    let started = notices.update(freeze(&[("EventId", json!("another")), ("EventStatus", json!("Started"))]));
    assert_eq!(states(&started), ["started"]);
    // What follows a started freeze under another id is the next one.
    let next = notices.update(freeze(&[("EventId", json!("third"))]));
    assert_eq!(states(&next), ["gone", "scheduled"]);
    // The same work for another machine is another notice.
    let elsewhere =
        notices.update(freeze(&[("EventId", json!("fourth")), ("Resources", json!(["WestNO_1"]))]));
    assert_eq!(states(&elsewhere), ["gone", "scheduled"]);
}

#[test]
fn creeping_start_is_reported_each_minute() {
    let mut notices = Notices::new();
    let at = |seconds: i64| {
        let start = START.parse::<Timestamp>().unwrap() + jiff::SignedDuration::from_secs(seconds);
        freeze(&[("NotBefore", start.to_string().into())])
    };
    assert_eq!(notices.update(at(0)).len(), 1);
    let told = (1..=120).map(|second| notices.update(at(second)).len()).sum::<usize>();
    assert_eq!(told, 2, "at one and at two minutes");
}

#[test]
fn a_hardware_failure_goes_straight_to_started() {
    let mut notices = Notices::new();
    assert_eq!(
        states(&notices.update(freeze(&[("EventStatus", json!("Started")), ("NotBefore", json!(""))]))),
        ["started"]
    );
}

#[test]
fn completed_aws_event_is_gone_once() {
    let list = |state: &str| {
        let text = format!(
            r#"[{{"NotBefore":"19 Dec 2023 13:56:07 GMT","Code":"system-reboot","Description":"scheduled reboot",
                "EventId":"instance-event-0d59937288b749b32","NotAfter":"19 Dec 2023 14:56:07 GMT","State":"{state}"}}]"#
        );
        Document::aws(text.as_bytes()).unwrap()
    };
    let mut notices = Notices::new();
    let event = (
        "scheduled".to_owned(),
        Some("instance-event-0d59937288b749b32".to_owned()),
        Some("2023-12-19T13:56:07Z".parse().unwrap()),
    );
    assert_eq!(said(&notices.update(list("active"))), [event]);
    assert!(notices.update(list("active")).is_empty());
    assert_eq!(states(&notices.update(list("completed"))), ["gone"]);
    assert!(notices.update(Document::aws(b"[]").unwrap()).is_empty());
    assert_eq!(Document::aws(b"").unwrap().notices, []);
}

#[test]
fn gcp_has_three_words_and_may_have_more() {
    let mut notices = Notices::new();
    let gcp = |text: &str| Document::gcp(text.as_bytes()).unwrap();
    assert!(notices.update(gcp("NONE")).is_empty());
    assert_eq!(
        said(&notices.update(gcp("MIGRATE_ON_HOST_MAINTENANCE\n"))),
        [("scheduled".to_owned(), None, None)]
    );
    // Another word is other work.
    let other = notices.update(gcp("TERMINATE_ON_HOST_MAINTENANCE"));
    assert_eq!(states(&other), ["gone", "scheduled"]);
    assert!(
        matches!(&other[1], EventKind::Maintenance { what, .. } if what == "TERMINATE_ON_HOST_MAINTENANCE")
    );
    assert_eq!(states(&notices.update(gcp("NONE"))), ["gone"]);
    assert_eq!(gcp("SOMETHING_NEW").notices[0].what, "SOMETHING_NEW");
    assert!(
        Document::gcp(b"<html>").is_err() && Document::gcp(b"").is_err() && Document::gcp(&[0xff]).is_err()
    );
}

#[test]
fn one_clouds_document_says_nothing_about_another() {
    let mut notices = Notices::new();
    notices.update(freeze(&[]));
    assert!(notices.update(Document::gcp(b"NONE").unwrap()).is_empty());
    assert!(notices.update(freeze(&[])).is_empty());
}

#[test]
fn azure_instance_exposes_only_requested_tags() {
    let document = json!({"compute": {
        "location": "westeurope", "zone": "2", "physicalZone": "westeurope-az3", "vmSize": "Standard_D4s_v5",
        "vmId": "02aab8a4-74ef-476e-8182-f6d2ba4166a6", "name": "WestNO_0", "platformFaultDomain": "0",
        "platformUpdateDomain": "", "placementGroupId": "", "host": {"id": ""}, "securityProfile": {"securityType": "TrustedLaunch"},
        "subscriptionId": "8d10da13-8125-4ba9-a717-bf7490507b3d",
        "tagsList": [{"name": "Team", "value": "db"}, {"name": "password", "value": "hunter2"}]}});
    let wanted = ["team".to_owned(), "absent".to_owned()];
    let instance = Instance::azure(document.to_string().as_bytes(), &wanted).unwrap();
    assert_eq!(
        serde_json::to_value(&instance).unwrap(),
        json!({"provider": "azure", "region": "westeurope", "zone": "2", "physical_zone": "westeurope-az3",
            "vm_size": "Standard_D4s_v5", "vm_id": "02aab8a4-74ef-476e-8182-f6d2ba4166a6", "vm_name": "WestNO_0",
            "tags": {"Team": "db"}, "fault_domain": "0", "security_type": "TrustedLaunch"})
    );
    // A machine outside zones: absent is an empty string there, and null in a recording.
    let bare = Instance::azure(br#"{"compute":{"location":"westus","zone":"","tagsList":[]}}"#, &[]).unwrap();
    assert_eq!((bare.region.as_deref(), bare.zone, bare.vm_id), (Some("westus"), None, None));
}

#[test]
fn aws_and_gcp_machines() {
    let aws =
        br#"{"accountId":"123456789012","availabilityZone":"us-west-2b","instanceId":"i-1234567890abcdef0",
        "instanceType":"t2.micro","privateIp":"10.158.112.84","region":"us-west-2"}"#;
    assert_eq!(
        serde_json::to_value(Instance::aws(aws).unwrap()).unwrap(),
        json!({"provider": "aws", "region": "us-west-2", "zone": "us-west-2b", "physical_zone": null,
            "vm_size": "t2.micro", "vm_id": "i-1234567890abcdef0", "tags": {}})
    );
    let gcp = Instance::gcp(
        b"projects/12345/zones/us-central1-a",
        b"projects/12345/machineTypes/n2-standard-4",
        b"3914\n",
    );
    assert_eq!(
        serde_json::to_value(gcp).unwrap(),
        json!({"provider": "gcp", "region": "us-central1", "zone": "us-central1-a", "physical_zone": null,
            "vm_size": "n2-standard-4", "vm_id": "3914", "tags": {}})
    );
}

#[test]
fn notice_text_is_sanitised_and_bounded() {
    let document = freeze(&[("EventType", json!("Fre\u{1b}[31meze\n"))]);
    assert_eq!(document.notices[0].what, "Fre[31meze");
    assert_eq!(plain("x".repeat(9_000).as_bytes()).map(|text| text.len()), Some(MAX_WORD));
}

/// JSON that comes close to what is expected.
fn near_document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        prop::sample::select(vec!["Started", "completed", "2026-04-11T22:26:58Z", ""]).prop_map(Value::from),
    ];
    let names = prop::sample::select(vec![
        "Events",
        "EventId",
        "EventStatus",
        "EventType",
        "Resources",
        "NotBefore",
        "DurationInSeconds",
        "State",
        "Code",
        "compute",
        "tagsList",
        "name",
        "value",
        "host",
        "id",
        "instanceId",
    ]);
    leaf.prop_recursive(4, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(names.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Reads bytes as everything they could be. What is read again without change must be silence.
fn read_all(bytes: &[u8]) {
    for document in [Document::azure(bytes), Document::aws(bytes), Document::gcp(bytes)].into_iter().flatten()
    {
        let mut notices = Notices::new();
        assert_eq!(notices.update(document.clone()).len(), document.notices.len());
        assert!(notices.update(document).is_empty());
    }
    let _ = (
        Instance::azure(bytes, &["name".to_owned()]),
        Instance::aws(bytes),
        Instance::gcp(bytes, bytes, bytes),
    );
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read_all(&bytes);
    }

    #[test]
    fn documents_that_are_almost_right_never_panic(document in near_document()) {
        read_all(document.to_string().as_bytes());
        read_all(json!({"Events": [document.clone()], "compute": document}).to_string().as_bytes());
    }
}
