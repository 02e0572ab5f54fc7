//! Faults that a connection survives, each made for real between namespaces: the recorded verdict, and the direction
//! where the stamps tell it, must be right, every time (`FATHOM_REPEAT=10` makes each ten times). `docs/faults.md`
//! tells what each looks like on the wire.

use crate::support::faults::{Fault, Run, Site, long_stall, make_all, restore, rule};
use crate::support::rows::{has_kind, of_kind};
use std::thread;
use std::time::{Duration, Instant};

/// How long packets vanish.
const LENGTH: Duration = Duration::from_secs(3);
/// Less: TCP sends again 1.4 s and 3 s after the loss, and the silence lasts until then.
const SHORT: Duration = Duration::from_millis(1_600);

const FAULTS: &[Fault] = &[
    ("this flow's way there blackholed for 3 s", flow_forward),
    ("this flow's way back blackholed for 3 s", flow_return),
    ("way there blackholed for 3 s", all_forward),
    ("way back blackholed for 3 s", all_return),
    ("both ways blackholed for 3 s", all_both),
];

/// What vanishes.
#[derive(Clone, Copy)]
struct Lost {
    there: bool,
    back: bool,
    /// Of the probe's first connection only, not of every one.
    this_flow: bool,
}

fn blackhole(lost: Lost, direction: &str) {
    blackhole_for(LENGTH, "", lost, direction);
}

/// Loses one connection's packets for a short time: quick, where a stall need not be recognized by the path's usual times.
pub(super) fn flow_forward_briefly() {
    let options = "--every 20ms --stall-after 300ms";
    blackhole_for(SHORT, options, Lost { there: true, back: false, this_flow: true }, "forward");
}

fn blackhole_for(length: Duration, options: &str, lost: Lost, direction: &str) {
    let run = Run::start(Site::cable(), options);
    let net = &run.site.net;
    if lost.there {
        let what =
            if lost.this_flow { format!("tcp sport {}", run.port) } else { "meta l4proto tcp".to_owned() };
        rule(&net.reflector, &format!("{what} drop"));
    }
    if lost.back {
        let what =
            if lost.this_flow { format!("tcp dport {}", run.port) } else { "meta l4proto tcp".to_owned() };
        rule(&net.probe, &format!("{what} drop"));
    }
    let (began, least) = (Instant::now(), length * 5 / 6);
    run.wait_for("a stall", |events| has_kind(events, "stall.began"));
    thread::sleep(length.saturating_sub(began.elapsed()));
    restore(&net.reflector);
    restore(&net.probe);
    let long = |events: &Vec<_>| {
        of_kind(events, "stall.ended")
            .iter()
            .any(|e| e["duration_ns"].as_u64() > Some(least.as_nanos() as u64))
    };
    run.wait_for("the end of the stall", long);
    let (events, _) = run.end();
    let explained = long_stall(&events, least);
    assert_eq!([&explained["verdict"], &explained["direction"]], ["path_down", direction], "{explained}");
    if lost.this_flow {
        assert_eq!(explained["fresh"], "echoed", "others got through meanwhile: {explained}");
        assert_eq!(explained["reflector"]["standing"], "open", "it was asked meanwhile: {explained}");
    }
    assert_eq!(of_kind(&events, "connection.opened").len(), 1, "the connection survives");
    assert_eq!(of_kind(&events, "connection.closed")[0]["cause"], "finished");
}

fn flow_forward() {
    blackhole(Lost { there: true, back: false, this_flow: true }, "forward");
}

fn flow_return() {
    blackhole(Lost { there: false, back: true, this_flow: true }, "return");
}

fn all_forward() {
    blackhole(Lost { there: true, back: false, this_flow: false }, "forward");
}

fn all_return() {
    blackhole(Lost { there: false, back: true, this_flow: false }, "return");
}

/// The way back cannot be told while no request gets there: the direction is the one that is known to be lost.
fn all_both() {
    blackhole(Lost { there: true, back: true, this_flow: false }, "forward");
}

mod acceptance {
    use super::*;

    #[test]
    fn every_stall_has_its_verdict_and_direction() {
        make_all(FAULTS);
    }
}
