//! A protocol of one's own in one file (`world/toy.rs`): a request of 10 bytes, an answer of 1,000.

use crate::world::{Fault, MS, Outcome, S, World, toy};
use fathom_core::event::EventKind;
use fathom_core::probe::Settings;
use fathom_core::schedule::Pace;
use fathom_core::verdict::Fresh;

fn settings(pace: Pace) -> Settings {
    Settings { pace, duration_ns: Some(10 * S), ..Settings::new(vec!["toy:1".into()]) }
}

#[test]
fn different_request_and_answer_lengths_are_sampled() {
    for pace in [Pace::Every(20 * MS), Pace::PingPong] {
        let mut world = World::speaking(settings(pace), 1, Some(toy::toy))
            .with([(3 * S, Fault::Silence(S)), (6 * S, Fault::Reset)]);
        world.rtt_ns = 2 * MS;
        let outcome = world.run();
        outcome.check_laws();
        let answered = outcome.samples.iter().filter(|(_, s)| s.rtt_ns.is_some()).count();
        assert!(answered >= 400 && outcome.samples.len() <= answered + 2, "{answered} answered");
        assert_eq!(outcome.stalls(), 1);
    }
}

/// What canary connections met, by the explanations, and the facts that were told with it.
fn met(outcome: &Outcome) -> Vec<(Fresh, Vec<String>)> {
    let met = outcome.of(|kind| match kind {
        EventKind::ConnectionExplained { fresh, explanation, .. } => {
            Some((*fresh, explanation.because.clone()))
        }
        _ => None,
    });
    met.into_iter().map(|(.., met)| met).collect()
}

/// A canary spoke echo whatever the protocol was: a server of another one had to make sense of 64 bytes of ours (here it
/// panics), and what it answered counted as no echo. It asks what the protocol asks.
#[test]
fn canary_speaks_the_connection_protocol() {
    let forgotten = (3 * S, Fault::ForgetFlows);
    let mut world = World::speaking(settings(Pace::Every(100 * MS)), 1, Some(toy::toy)).with([forgotten]);
    world.user_timeout_ns = 3 * S;
    let outcome = world.run();
    outcome.check_laws();
    let met = met(&outcome);
    assert_eq!(met.iter().map(|(fresh, _)| *fresh).collect::<Vec<_>>(), [Fresh::Echoed], "{met:?}");
}

/// Where a fresh connection cannot be asked, a canary only connects: nothing is claimed about answers.
#[test]
fn canary_without_questions_only_connects() {
    let forgotten = (3 * S, Fault::ForgetFlows);
    let mut world = World::speaking(settings(Pace::Every(100 * MS)), 1, Some(toy::shy_toy)).with([forgotten]);
    world.user_timeout_ns = 3 * S;
    let outcome = world.run();
    outcome.check_laws();
    let met = met(&outcome);
    assert_eq!(met.iter().map(|(fresh, _)| *fresh).collect::<Vec<_>>(), [Fresh::OnlyConnected], "{met:?}");
    assert!(
        met[0].1.iter().all(|fact| !fact.contains("echo") && !fact.contains("did not come back")),
        "{met:?}"
    );
}
