//! `fathom probe` beside the metadata service of each cloud, emulated by the test on loopback with the vendors'
//! documented samples.

use crate::support::claims::checked_story;
use crate::support::metadata::{Metadata, Reply, Request};
use crate::support::probe::{Probe, assert_sound, wait_for_events};
use crate::support::reflector::Echo;
use crate::support::rows::{Events, events, has_kind, of_kind};
use crate::support::{FATHOM, free_port, wait_for};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

const AZURE_INSTANCE: &str = "/metadata/instance";
const AZURE_EVENTS: &str = "/metadata/scheduledevents";
const AWS_TOKEN: &str = "/latest/api/token";
const AWS_EVENTS: &str = "/latest/meta-data/events/maintenance/scheduled";
const GCP: &str = "/computeMetadata/v1/instance/";
const GCP_EVENT: &str = "/computeMetadata/v1/instance/maintenance-event";

/// A probe in a directory of its own, beside a reflector and a metadata service.
struct Run {
    home: TempDir,
    began: Instant,
    probe: Probe,
    echo: Echo,
}

impl Run {
    fn start(url: &str, arguments: &str) -> Self {
        Self::start_with(Echo::start("127.0.0.1"), &format!("--metadata-url {url} {arguments}"))
    }

    fn start_with(echo: Echo, arguments: &str) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let line = format!("probe {} --every 50ms --quiet --record r {arguments}", echo.address());
        let began = Instant::now();
        let mut command = Command::new(FATHOM);
        // Nobody listens on port 9: whatever went through a proxy would fail.
        for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
            command.env(name, "http://127.0.0.1:9");
        }
        let probe = Probe::spawn(command.args(line.split_whitespace()).current_dir(home.path()));
        Self { home, began, probe, echo }
    }

    fn dir(&self) -> std::path::PathBuf {
        self.home.path().join("r")
    }

    /// Ends the probe once the condition holds; its events and its manifest.
    fn end_when(self, what: &str, holds: impl FnMut(&Events) -> bool) -> (Events, Value) {
        let dir = self.dir();
        wait_for_events(&dir, what, holds);
        self.probe.signal("INT");
        let outcome = self.probe.finish();
        assert_eq!(outcome.code(), 0, "{}", outcome.err);
        assert_sound(&dir);
        let manifest = manifest(&dir);
        (events(&dir), manifest)
    }
}

fn manifest(dir: &Path) -> Value {
    let text = std::fs::read_to_string(dir.join("recording.json")).expect("a manifest");
    assert!(!text.contains("hunter2"), "a tag that nobody asked for: {text}");
    serde_json::from_str(&text).expect("JSON")
}

fn is_gone(events: &Events) -> bool {
    of_kind(events, "maintenance").iter().any(|e| e["state"] == "gone")
}

fn states(events: &Events) -> Vec<String> {
    of_kind(events, "maintenance").iter().map(|e| e["state"].as_str().expect("a state").to_owned()).collect()
}

/// Asserts that the n-th `maintenance` event is dated between the question whose answer said so and the next one.
fn assert_dated(events: &Events, n: usize, asked: &[Request], question: usize) {
    let at: jiff::Timestamp =
        of_kind(events, "maintenance")[n]["at"].as_str().and_then(|at| at.parse().ok()).expect("a time");
    let at = SystemTime::from(at);
    assert!(at >= asked[question].utc, "event {n} is dated before it could be known");
    assert!(
        asked.get(question + 1).is_none_or(|next| at <= next.utc),
        "event {n} is dated after the next question"
    );
}

/// Asserts that the probe read and did nothing else, but for AWS's tokens.
fn assert_only_read(service: &Metadata) {
    for request in service.asked() {
        let token = request.method == "PUT" && request.path == AWS_TOKEN;
        assert!(request.method == "GET" || token, "{request:?}");
    }
}

fn azure_instance() -> Reply {
    let compute = json!({"location": "westeurope", "zone": "2", "physicalZone": "westeurope-az3", "vmSize": "Standard_D4s_v5",
        "vmId": "02aab8a4-74ef-476e-8182-f6d2ba4166a6", "name": "WestNO_0",
        "tagsList": [{"name": "team", "value": "db"}, {"name": "password", "value": "hunter2"}]});
    Reply::Answer(200, "Content-Type: application/json\r\n", json!({ "compute": compute }).to_string())
}

fn freeze(id: &str, status: &str, not_before: &str) -> Reply {
    Reply::Answer(200, "", json!({"DocumentIncarnation": 2, "Events": [{"EventId": id, "EventStatus": status, "EventType": "Freeze",
        "ResourceType": "VirtualMachine", "Resources": ["WestNO_0"], "NotBefore": not_before,
        "Description": "Virtual machine is being paused because of a memory-preserving Live Migration operation.",
        "EventSource": "Platform", "DurationInSeconds": 5}]}).to_string())
}

fn nothing_scheduled() -> Reply {
    Reply::Answer(200, "", r#"{"DocumentIncarnation":1,"Events":[]}"#.to_owned())
}

#[test]
fn azure_freeze_is_recorded_until_gone() {
    const ID: &str = "C7061BAC-AFDC-4513-B24B-AA5F13A16123";
    let service = Metadata::start(|request, before| match request.path.split('?').next() {
        Some(AZURE_INSTANCE) => azure_instance(),
        Some(AZURE_EVENTS) => match before {
            // The weekday is wrong, as in the documentation.
            0 => freeze(ID, "Scheduled", "Mon, 11 Apr 2026 22:26:58 GMT"),
            1 => freeze("another", "Started", ""),
            _ => nothing_scheduled(),
        },
        _ => Reply::Answer(404, "", String::new()),
    });
    let run = Run::start(&service.url(), "--cloud azure --cloud-every 1s --cloud-tag team");
    let began = run.began;
    let (events, manifest) = run.end_when("the end of the freeze", is_gone);

    assert_eq!(states(&events), ["scheduled", "started", "gone"]);
    let told = of_kind(&events, "maintenance");
    assert_eq!(told[0]["not_before"], "2026-04-11T22:26:58Z");
    assert!(told[1]["not_before"].is_null(), "{}", told[1]);
    for (event, id) in told.iter().zip([ID, "another", "another"]) {
        assert_eq!(
            (&event["cloud"], &event["what"], &event["id"]),
            (&"azure".into(), &"Freeze".into(), &id.into())
        );
        assert_eq!(
            (&event["duration_ns"], &event["notice"]["Resources"][0]),
            (&5_000_000_000_u64.into(), &"WestNO_0".into())
        );
        assert!(event["connection"].is_null(), "it concerns the host: {event}");
    }
    let asked = service.asked_for(AZURE_EVENTS);
    for n in 0..3 {
        assert_dated(&events, n, &asked, n);
    }
    assert_eq!(
        manifest["cloud"],
        json!({"provider": "azure", "region": "westeurope", "zone": "2", "physical_zone": "westeurope-az3",
            "vm_size": "Standard_D4s_v5", "vm_id": "02aab8a4-74ef-476e-8182-f6d2ba4166a6", "vm_name": "WestNO_0", "tags": {"team": "db"}})
    );
    // Never more often than was asked for: the n-th look begins n seconds after the start of the program, or later.
    for (n, request) in asked.iter().enumerate() {
        assert!(request.at - began >= Duration::from_secs(n as u64), "question {n} came too soon");
        assert_eq!(request.path, format!("{AZURE_EVENTS}?api-version=2020-07-01"));
    }
    assert_eq!(service.asked_for(AZURE_INSTANCE).len(), 1);
    assert!(service.asked().iter().all(|r| r.header("metadata") == Some("true")), "{:?}", service.asked());
    assert_only_read(&service);
}

/// Tokens that `IMDSv2` has handed out, and until when each is good.
type Tokens = Mutex<Vec<(String, Instant)>>;

fn aws(request: &Request, before: usize, tokens: &Tokens) -> Reply {
    let ok = |text: &str| Reply::Answer(200, "", text.to_owned());
    let mut tokens = tokens.lock().expect("tokens");
    if request.path == AWS_TOKEN {
        if request.method != "PUT" || request.header("x-aws-ec2-metadata-token-ttl-seconds").is_none() {
            return Reply::Answer(400, "", String::new());
        }
        let token = format!("AQAEA-{}==", tokens.len());
        tokens.push((token.clone(), Instant::now() + Duration::from_secs(6)));
        return Reply::Answer(200, "X-aws-ec2-metadata-token-ttl-seconds: 6\r\n", token);
    }
    let shown = request.header("x-aws-ec2-metadata-token");
    if !tokens.iter().any(|(token, until)| shown == Some(token) && Instant::now() < *until) {
        return Reply::Answer(401, "", String::new());
    }
    let scheduled = |state: &str| {
        json!([{"NotBefore": "19 Dec 2023 13:56:07 GMT", "Code": "system-reboot", "Description": "scheduled reboot",
            "EventId": "instance-event-0d59937288b749b32", "NotAfter": "19 Dec 2023 14:56:07 GMT", "State": state}])
        .to_string()
    };
    match request.path.as_str() {
        "/latest/dynamic/instance-identity/document" => ok(
            r#"{"accountId":"123456789012","availabilityZone":"us-west-2b","instanceId":"i-1234567890abcdef0","instanceType":"t2.micro","region":"us-west-2"}"#,
        ),
        "/latest/meta-data/placement/availability-zone-id" => ok("usw2-az1"),
        "/latest/meta-data/tags/instance/team" => ok("db"),
        AWS_EVENTS => match before {
            0 => ok("[]"),
            1..5 => ok(&scheduled("active")),
            5 => ok(&scheduled("completed")),
            _ => Reply::Answer(404, "", String::new()),
        },
        _ => Reply::Answer(404, "", String::new()),
    }
}

fn aws_service() -> Metadata {
    let tokens = Tokens::default();
    Metadata::start(move |request, before| aws(request, before, &tokens))
}

/// GCP's answers to successive questions. `None` is a failure. Further questions are held.
fn gcp_announces_migration(answers: &'static [Option<&'static str>]) {
    let service = Metadata::start(move |request, before| {
        let google =
            |text: &str| Reply::Answer(200, "Metadata-Flavor: Google\r\nETag: 4411ab\r\n", text.to_owned());
        match request.path.split('?').next().and_then(|path| path.strip_prefix(GCP)) {
            Some("zone") => google("projects/12345/zones/us-central1-a"),
            Some("machine-type") => google("projects/12345/machineTypes/n2-standard-4"),
            Some("id") => google("3914"),
            Some("attributes/team") => google("db"),
            Some("maintenance-event") => match answers.get(before) {
                Some(None) => Reply::Answer(503, "Metadata-Flavor: Google\r\n", String::new()),
                Some(Some(answer)) => google(answer),
                None => Reply::Hold,
            },
            _ => Reply::Answer(404, "Metadata-Flavor: Google\r\n", String::new()),
        }
    });
    let run = Run::start(&service.url(), "--cloud gcp --cloud-tag team");
    let began = run.began;
    // The last question is held for longer than a test waits for its probe to end.
    let (events, manifest) = run.end_when("a question that is held", |events| {
        is_gone(events) && service.asked_for(GCP_EVENT).len() == answers.len() + 1
    });
    assert_eq!(states(&events), ["scheduled", "gone"]);
    let told = of_kind(&events, "maintenance")[0];
    assert_eq!((&told["cloud"], &told["what"]), (&"gcp".into(), &"MIGRATE_ON_HOST_MAINTENANCE".into()));
    assert!(told["id"].is_null() && told["not_before"].is_null(), "GCP says neither: {told}");
    let asked = service.asked_for(GCP_EVENT);
    assert_dated(&events, 0, &asked, answers.len() - 2);
    assert_dated(&events, 1, &asked, answers.len() - 1);
    assert_eq!(asked[0].path, GCP_EVENT);
    for (n, request) in asked.iter().enumerate().skip(1) {
        assert_eq!(request.path, format!("{GCP_EVENT}?wait_for_change=true&timeout_sec=60&last_etag=4411ab"));
        assert!(request.at - began >= Duration::from_secs(n as u64), "question {n} came too soon");
    }
    assert_eq!(
        manifest["cloud"],
        json!({"provider": "gcp", "region": "us-central1", "zone": "us-central1-a", "physical_zone": null,
            "vm_size": "n2-standard-4", "vm_id": "3914", "tags": {"team": "db"}})
    );
    assert!(of_kind(&events, "note").is_empty(), "one 503 is nothing to tell");
    assert!(service.asked().iter().all(|r| r.header("metadata-flavor") == Some("Google")));
    assert_only_read(&service);
}

#[test]
fn gcp_long_poll_does_not_delay_exit() {
    gcp_announces_migration(&[Some("MIGRATE_ON_HOST_MAINTENANCE"), Some("NONE")]);
}

#[test]
fn auto_finds_out_which_cloud_it_is() {
    let service = aws_service();
    let run = Run::start(&service.url(), "--cloud auto --cloud-every 1s");
    let (_, manifest) = run.end_when("a notice", |events| !of_kind(events, "maintenance").is_empty());
    assert_eq!((&manifest["cloud"]["provider"], &manifest["cloud"]["tags"]), (&"aws".into(), &json!({})));
    assert_only_read(&service);
}

#[test]
fn auto_is_quiet_where_there_is_no_cloud() {
    thread::scope(|scope| {
        scope.spawn(|| no_cloud_is_found(true));
        scope.spawn(|| no_cloud_is_found(false));
    });
}

/// A web server that is no metadata service, or nothing at all.
fn no_cloud_is_found(answers: bool) {
    let service = Metadata::start(|_, _| Reply::Answer(200, "", "<html>It works!</html>".to_owned()));
    let nobody = format!("http://127.0.0.1:{}", free_port());
    let run = Run::start(if answers { service.url() } else { nobody }.as_str(), "--cloud auto --count 20");
    let dir = run.dir();
    let outcome = run.probe.finish();
    assert_eq!((outcome.code(), outcome.err.contains("metadata")), (0, false), "{}", outcome.err);
    assert!(manifest(&dir)["cloud"].is_null());
    let events = events(&dir);
    assert!(of_kind(&events, "note").is_empty() && of_kind(&events, "maintenance").is_empty(), "{events:?}");
}

/// Azure's service, which announces this.
fn announcing(status: &'static str, not_before: String) -> Metadata {
    Metadata::start(move |request, _| match request.path.split('?').next() {
        Some(AZURE_INSTANCE) => azure_instance(),
        _ => freeze("C7061BAC", status, &not_before),
    })
}

/// Stops the reflector for a second, and returns the explanations of the stalls.
fn stalled(run: Run) -> (Events, Vec<(Vec<String>, Value)>) {
    let dir = run.dir();
    wait_for_events(&dir, "a connection", |events| has_kind(events, "connection.opened"));
    run.echo.signal("STOP");
    wait_for_events(&dir, "a stall", |events| has_kind(events, "stall.began"));
    // The silence must be longer than any that machines make by themselves.
    thread::sleep(Duration::from_secs(1));
    run.echo.signal("CONT");
    wait_for_events(&dir, "the end of the stall", |events| has_kind(events, "connection.explained"));
    let Run { home, probe, .. } = run;
    probe.signal("INT");
    assert_eq!(probe.finish().code(), 0);
    let log = events(&dir);
    let story = checked_story(&dir, &log);
    drop(home);
    let stalls = story
        .into_iter()
        .filter(|line| line["statement"].as_str().is_some_and(|s| s.contains("stalled for")));
    let facts = |line: &Value| {
        let facts = line["evidence"].as_array().expect("a list").iter();
        facts.map(|f| f.as_str().expect("text").to_owned()).collect()
    };
    (log, stalls.map(|line| (facts(&line), line)).collect())
}

const LINK: &str =
    "inside the window of azure's Freeze notice to the reflector's host; whether that caused it is not known";

/// A server's cloud notifies only the server. The reflector passes the notice on, and the probe records its host.
#[test]
fn reflector_passes_its_notices_on() {
    let service = announcing("Started", String::new());
    let url = service.url();
    let options = ["--cloud", "azure", "--cloud-every", "1s", "--metadata-url", &url];
    let echo = Echo::start_as(&options);
    wait_for("the reflector to know", || (service.asked_for(AZURE_EVENTS).len() > 1).then_some(()));
    let (log, stalls) = stalled(Run::start_with(echo, "--stall-after 300ms"));
    let told = of_kind(&log, "maintenance");
    assert_eq!(told.len(), 1, "{log:?}");
    let (host, state) = (&told[0]["host"], &told[0]["state"]);
    assert_eq!((host, state), (&"remote".into(), &"started".into()), "{}", told[0]);
    assert_eq!((&told[0]["cloud"], &told[0]["what"]), (&"azure".into(), &"Freeze".into()));
    assert!(told[0]["not_before"].is_string(), "when it was seen to begin: {}", told[0]);
    assert!(!stalls.is_empty());
    for (facts, line) in stalls {
        assert!(facts.iter().any(|fact| fact == LINK), "{line}");
        assert_eq!(line["verdict"], "peer_paused", "{line}");
    }
    assert_only_read(&service);
}

/// A service is asked at most once a second, so these tests take several.
mod acceptance {
    use super::*;

    /// Azure's `NotBefore` in both of its forms.
    fn azure_dates(at: jiff::Timestamp) -> [String; 2] {
        // Azure names its samples' weekday wrongly, too.
        ["Mon, %d %b %Y %H:%M:%S GMT", "%Y-%m-%dT%H:%M:%SZ"].map(|form| at.strftime(form).to_string())
    }

    #[test]
    fn stall_links_only_to_overlapping_notice() {
        let in_seconds = |seconds| azure_dates(jiff::Timestamp::now() + Duration::from_secs(seconds));
        // Within the minute before its time; without a time once it has started.
        let mut inside = in_seconds(20).map(|date| ("Scheduled", date)).to_vec();
        inside.push(("Started", String::new()));
        let outside = in_seconds(3_600).map(|date| ("Scheduled", date));
        let cases = inside.into_iter().map(|case| (case, true)).chain(outside.map(|case| (case, false)));
        thread::scope(|scope| {
            for ((status, date), linked) in cases {
                scope.spawn(move || {
                    let service = announcing(status, date.clone());
                    let url = service.url();
                    let options = ["--cloud", "azure", "--cloud-every", "1s", "--metadata-url", &url];
                    let echo = Echo::start_as(&options);
                    let knows = || (service.asked_for(AZURE_EVENTS).len() > 1).then_some(());
                    wait_for("the reflector to know", knows);
                    let (log, stalls) = stalled(Run::start_with(echo, "--stall-after 300ms"));
                    assert_eq!(of_kind(&log, "maintenance").len(), 1, "{log:?}");
                    assert!(!stalls.is_empty(), "{status} {date:?}: no stall is told");
                    for (facts, line) in stalls {
                        let found = facts.iter().any(|fact| fact == LINK);
                        assert_eq!(found, linked, "{status} {date:?}: {line}");
                        // The reflector says why; the notice changes nothing about that.
                        assert_eq!(line["verdict"], "peer_paused", "{line}");
                    }
                });
            }
        });
    }

    /// The notice is for the probe's machine, and the reflector is stopped: the notice explains nothing about the
    /// reflector.
    #[test]
    fn own_notice_explains_no_stopped_reflector() {
        let service = announcing("Started", String::new());
        let run = Run::start(&service.url(), "--cloud azure --cloud-every 1s --stall-after 300ms");
        wait_for_events(&run.dir(), "the notice", |events| has_kind(events, "maintenance"));
        let (log, stalls) = stalled(run);
        assert!(of_kind(&log, "maintenance").iter().all(|e| e["host"].is_null()), "{log:?}");
        assert!(!stalls.is_empty());
        for (facts, line) in stalls {
            assert!(!facts.iter().any(|fact| fact.contains("notice")), "{line}");
        }
    }

    #[test]
    fn aws_maintenance_events_survive_token_renewal() {
        let service = aws_service();
        let run =
            Run::start(&service.url(), "--cloud aws --cloud-every 1s --cloud-tag team --cloud-tag absent");
        let (events, manifest) = run.end_when("the end of the event", is_gone);
        assert_eq!(states(&events), ["scheduled", "gone"]);
        let told = of_kind(&events, "maintenance")[0];
        assert_eq!((&told["cloud"], &told["what"]), (&"aws".into(), &"system-reboot".into()));
        assert_eq!(
            (&told["id"], &told["not_before"]),
            (&"instance-event-0d59937288b749b32".into(), &"2023-12-19T13:56:07Z".into())
        );
        assert_eq!(told["notice"]["NotAfter"], "19 Dec 2023 14:56:07 GMT");
        let asked = service.asked_for(AWS_EVENTS);
        assert_dated(&events, 0, &asked, 1);
        assert_dated(&events, 1, &asked, 5);
        assert_eq!(
            manifest["cloud"],
            json!({"provider": "aws", "region": "us-west-2", "zone": "us-west-2b", "physical_zone": "usw2-az1", "vm_size": "t2.micro",
                "vm_id": "i-1234567890abcdef0", "tags": {"team": "db"}})
        );
        // Six seconds of questions with tokens that are good for six, and none was late: there would be a failure told.
        assert!(service.asked_for(AWS_TOKEN).len() >= 2, "no token was renewed");
        assert_only_read(&service);
    }

    #[test]
    fn single_gcp_failure_is_not_reported() {
        gcp_announces_migration(&[Some("NONE"), None, Some("MIGRATE_ON_HOST_MAINTENANCE"), Some("NONE")]);
    }

    #[test]
    fn metadata_service_outage_is_reported_once() {
        let service = Metadata::start(|request, before| match request.path.split('?').next() {
            Some(AZURE_INSTANCE) => azure_instance(),
            _ => match before {
                1 => Reply::Close,
                2 => Reply::Answer(429, "", String::new()),
                3 => Reply::Answer(200, "", "{\"Events\":".to_owned()),
                _ => freeze("a", "Scheduled", "2026-04-11T22:26:58Z"),
            },
        });
        let run = Run::start(&service.url(), "--cloud azure --cloud-every 1s");
        let again = |events: &Events| {
            of_kind(events, "note")
                .iter()
                .any(|e| e["text"].as_str().is_some_and(|text| text.contains("again")))
        };
        let (events, _) = run.end_when("the service to be back", again);
        let notes = of_kind(&events, "note");
        assert_eq!(notes.len(), 2, "{notes:?}");
        let text = notes[0]["text"].as_str().expect("text");
        assert!(text.contains("stopped answering") && text.contains("429"), "{text}");
        // What it announced before and after the outage is one notice.
        assert_eq!(states(&events), ["scheduled"]);
    }
}
