//! Each event does what it says, says what it does, and ends by itself.

use super::*;
use crate::event::{Direction, RedirectEnd};

/// (at, place, "began" or "ended", event).
fn said(out: &Output) -> Vec<(u64, &str, &str, &str)> {
    let of = |truth: &'_ Truth| -> Option<(&'static str, String)> {
        match &truth.what {
            What::EventBegan { event, .. } => Some(("began", event.clone())),
            What::EventEnded { event } => Some(("ended", event.clone())),
            _ => None,
        }
    };
    out.truths
        .iter()
        .filter_map(|t| of(t).map(|(what, event)| (t.at_ns, t.place.as_str(), what, &*event.leak())))
        .collect()
}

fn due(out: &Output) -> Vec<(HostId, u64)> {
    out.deliveries.iter().map(|d| (d.host, d.due_ns)).collect()
}

fn world(events: Vec<(u64, Event)>) -> World {
    let mut world = World::new(Plan { events, ..pair(&PathModel::constant(MS)) }, 1).unwrap();
    world.start(0);
    world
}

#[test]
fn paused_host_delivers_later_in_order() {
    let mut world = world(vec![(10 * MS, Event::HostPause { host: "b".into(), duration_ns: 20 * MS })]);
    let mut out = Output::default();
    world.packet_in(8 * MS, A, udp(1, 2, 1), &mut out);
    // Under way when the pause begins, and two more of which one comes from the paused host.
    world.packet_in(9 * MS + 1, A, udp(1, 2, 2), &mut out);
    world.packet_in(15 * MS, B, udp(2, 1, 3), &mut out);
    world.packet_in(16 * MS, A, udp(1, 2, 4), &mut out);
    let status = world.status();
    assert!(status.hosts[1].frozen && !status.hosts[0].frozen);
    world.advance(29 * MS, &mut out);
    assert_eq!((world.status().held, out.deliveries.len()), (3, 1));
    settle(&mut world, &mut out);
    assert_eq!(due(&out), [(B, 9 * MS), (B, 30 * MS), (B, 30 * MS), (A, 31 * MS)]);
    let lengths: Vec<_> = out.deliveries.iter().map(|d| d.packet.len() - 28).collect();
    assert_eq!(lengths, [1, 2, 4, 3]);
    assert_eq!(said(&out), [(10 * MS, "b", "began", "host-pause"), (30 * MS, "b", "ended", "host-pause")]);
    assert_eq!(out.records[3].in_ns, 15 * MS, "stamped when it was sent, not when it was let go");
}

#[test]
fn two_pauses_end_with_the_later_one() {
    let pause = |duration_ns| Event::HostPause { host: "b".into(), duration_ns };
    let mut world = world(vec![(MS, pause(20 * MS)), (2 * MS, pause(5 * MS))]);
    let mut out = Output::default();
    world.packet_in(3 * MS, A, udp(1, 2, 1), &mut out);
    settle(&mut world, &mut out);
    assert_eq!(due(&out), [(B, 21 * MS)]);
}

#[test]
fn path_change_is_temporary_or_permanent() {
    let change = |added_ns, duration_ns| Event::PathChange { path: "ab".into(), added_ns, duration_ns };
    let mut world = world(vec![(10 * MS, change(500_000, Some(10 * MS))), (40 * MS, change(-300_000, None))]);
    let mut out = Output::default();
    for at in [5, 12, 25, 45] {
        world.packet_in(at * MS, A, udp(1, 2, 1), &mut out);
        world.packet_in(at * MS, B, udp(2, 1, 1), &mut out);
    }
    settle(&mut world, &mut out);
    let took: Vec<_> = out.records.iter().map(|r| r.due_ns - r.in_ns).collect();
    assert_eq!(took, [MS, MS, 1_500_000, 1_500_000, MS, MS, 700_000, 700_000]);
    let words = [(10 * MS, "ab", "began", "path-change"), (20 * MS, "ab", "ended", "path-change")];
    assert_eq!(said(&out)[..2], words);
    assert_eq!(said(&out).len(), 3, "for good has no end");
}

#[test]
fn a_shorter_path_does_not_reorder() {
    let change = Event::PathChange { path: "ab".into(), added_ns: -900_000, duration_ns: None };
    let mut world = world(vec![(MS, change)]);
    let mut out = Output::default();
    world.packet_in(MS - 1, A, udp(1, 2, 1), &mut out);
    world.packet_in(MS + 1, A, udp(1, 2, 2), &mut out);
    settle(&mut world, &mut out);
    assert_eq!(due(&out), [(B, 2 * MS - 1), (B, 2 * MS - 1)]);
    assert_eq!(out.deliveries.iter().map(|d| d.packet.id).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_cut_is_one_way_or_both() {
    let cut = |direction| Event::LinkCut { path: "ab".into(), direction, duration_ns: Some(5 * MS) };
    let mut world = world(vec![
        (10 * MS, cut(Direction::Forward)),
        (20 * MS, cut(Direction::Backward)),
        (30 * MS, cut(Direction::Both)),
    ]);
    let mut out = Output::default();
    for at in [11, 16, 21, 26, 31, 36] {
        world.packet_in(at * MS, A, udp(1, 2, 1), &mut out);
        world.packet_in(at * MS, B, udp(2, 1, 1), &mut out);
    }
    settle(&mut world, &mut out);
    let cut: Vec<_> =
        dropped(&out).iter().map(|&(at, place, reason)| (at / MS, place.to_owned(), reason)).collect();
    assert_eq!(cut, [11, 21, 31, 31].map(|at| (at, "ab".to_owned(), DropReason::Cut)));
    assert_eq!(due(&out)[0], (A, 12 * MS), "the other way is open");
    assert_eq!(due(&out)[3], (B, 22 * MS));
    assert_eq!(out.deliveries.len(), 8);
}

fn migration(then: RedirectEnd) -> Event {
    Event::LiveMigration {
        host: "b".into(),
        brownout_ns: 100 * MS,
        brownout_added_ns: 200_000,
        freeze_ns: 50 * MS,
        redirect_ns: 300 * MS,
        redirect_added_ns: 400_000,
        then,
    }
}

/// Old and new flows from a (ports of hosts 1 and 4 of the address scheme) around a migration of b at 1 s.
fn migrate(then: RedirectEnd) -> Output {
    let mut plan = pair(&PathModel::constant(MS));
    plan.hosts[0].addresses.push(address(4).ip());
    plan.routes.push(route("b", 4, 0));
    plan.events.push((1_000 * MS, migration(then)));
    let mut world = World::new(plan, 1).unwrap();
    let mut out = Output::default();
    world.start(0);
    let data = Flags::ACK | Flags::PSH;
    world.packet_in(900 * MS, A, tcp(1, 2, Flags::SYN), &mut out);
    world.packet_in(1_050 * MS, A, tcp(1, 2, data), &mut out); // brownout
    world.packet_in(1_120 * MS, A, tcp(1, 2, data), &mut out); // frozen
    world.packet_in(1_130 * MS, A, tcp(4, 2, Flags::SYN), &mut out); // frozen, but new
    world.packet_in(1_200 * MS, B, tcp(2, 1, data), &mut out); // redirected
    world.packet_in(1_200 * MS, A, tcp(4, 2, data), &mut out); // direct
    world.packet_in(1_600 * MS, A, tcp(1, 2, data), &mut out); // after the redirect
    world.packet_in(1_600 * MS, A, tcp(4, 2, data), &mut out);
    world.packet_in(1_700 * MS, B, tcp(2, 1, data), &mut out);
    settle(&mut world, &mut out);
    out
}

#[test]
fn a_migration_slows_freezes_redirects_and_is_over() {
    let out = migrate(RedirectEnd::Direct);
    let at = |ms: u64, us: u64| ms * MS + us * 1_000;
    assert_eq!(
        due(&out),
        [
            (B, at(901, 0)),
            (B, at(1_051, 200)),
            // The new flow's SYN goes ahead of the old flow's segment, which takes the long way.
            (B, at(1_150, 0)),
            (B, at(1_150, 400)),
            (B, at(1_201, 0)),
            (A, at(1_201, 400)),
            (B, at(1_601, 0)),
            (B, at(1_601, 0)),
            (A, at(1_701, 0)),
        ]
    );
    assert_eq!(
        said(&out),
        [
            (1_000 * MS, "b", "began", "live-migration"),
            (1_000 * MS, "b", "began", "live-migration brownout"),
            (1_100 * MS, "b", "ended", "live-migration brownout"),
            (1_100 * MS, "b", "began", "live-migration freeze"),
            (1_150 * MS, "b", "ended", "live-migration freeze"),
            (1_150 * MS, "b", "began", "live-migration redirect"),
            (1_450 * MS, "b", "ended", "live-migration redirect"),
            (1_450 * MS, "b", "ended", "live-migration"),
        ]
    );
}

#[test]
fn an_expired_redirect_is_silent() {
    let out = migrate(RedirectEnd::Silent);
    let expired =
        [(1_601 * MS, "b", DropReason::RedirectExpired), (1_700 * MS, "b", DropReason::RedirectExpired)];
    assert_eq!(dropped(&out), expired);
    assert_eq!(out.deliveries.last().map(|d| d.due_ns), Some(1_601 * MS), "new flows go on");
}

#[test]
fn an_expired_redirect_answers_with_rst() {
    let out = migrate(RedirectEnd::Reset);
    assert_eq!(dropped(&out).len(), 2);
    let resets: Vec<_> = out
        .deliveries
        .iter()
        .filter(|d| d.packet.segment().is_some_and(|s| s.flags.has(Flags::RST)))
        .map(|d| (d.host, d.due_ns, d.packet.flow()))
        .collect();
    // Towards the client through the path, towards the host's own process at once.
    assert_eq!((resets[0].0, resets[0].1, resets[0].2.source), (A, 1_602 * MS, address(2)));
    assert_eq!((resets[1].0, resets[1].1, resets[1].2.source), (B, 1_700 * MS, address(1)));
    assert_eq!(resets.len(), 2);
    let said = out.truths.iter().filter(|t| matches!(t.what, What::ResetSent { .. })).count();
    assert_eq!(said, 2);
}

#[test]
fn a_syn_makes_an_old_five_tuple_new() {
    let event = migration(RedirectEnd::Silent);
    let mut world =
        World::new(Plan { events: vec![(0, event)], ..pair(&PathModel::constant(MS)) }, 1).unwrap();
    let mut out = Output::default();
    world.start(0);
    world.packet_in(10 * MS, A, tcp(1, 2, Flags::SYN), &mut out);
    world.packet_in(600 * MS, A, tcp(1, 2, Flags::ACK), &mut out);
    world.packet_in(700 * MS, A, tcp(1, 2, Flags::SYN), &mut out);
    world.packet_in(710 * MS, A, tcp(1, 2, Flags::ACK), &mut out);
    settle(&mut world, &mut out);
    assert_eq!(dropped(&out).len(), 1);
    assert_eq!(out.deliveries.len(), 3);
}

#[test]
fn events_for_unknown_targets_change_nothing() {
    let mut world = world(Vec::new());
    let mut out = Output::default();
    let cut = Event::LinkCut { path: "zz".into(), direction: Direction::Both, duration_ns: None };
    assert_eq!(world.event(5, &cut, &mut out), Err("there is no path labelled zz".to_owned()));
    let stage = Event::Stage { node: "a".into(), event: crate::event::StageEvent::FlushFlows };
    assert_eq!(world.event(5, &stage, &mut out), Err("there is no middlebox named a".to_owned()));
    assert!(out.truths.is_empty() && world.next_due_ns().is_none());
    world.event(6, &migration(RedirectEnd::Direct), &mut out).unwrap();
    assert_eq!(world.next_due_ns(), Some(6 + 100 * MS));
}
