//! The recording of a search for the rate ceiling: what must hold among its steps and its result, and from where another goes on.

use fathom_core::event::{Event, EventKind};
use fathom_core::limits::{
    Asked, CeilingRecorded, CeilingSearch, CeilingStepped, Judged, Seen, Step, Tally, Verdict,
    ceiling_picture,
};
use jiff::Timestamp;
use serde_json::Value;

const MS: u64 = 1_000_000;
const ASKED: Asked = Asked { up_to_per_s: 200, connections: 2 };

/// A step whose packets all go out on time; of each hundred so many are refused, and the others are answered after 2 ms.
fn seen(step: Step, refused_percent: u64) -> Seen {
    let mut tally = Tally::new(step);
    for packet in 0..step.due_before(step.lasts_ns) {
        let due_ns = step.due_ns(packet);
        if packet * 37 % 100 < refused_percent {
            tally.refused(due_ns);
        } else {
            tally.sent(due_ns, due_ns);
            tally.answered(due_ns, 2 * MS);
        }
    }
    tally.seen()
}

/// Steps as long as it asks for them: what is beyond 100 a second loses a third.
fn steps(search: &mut CeilingSearch, at_most: usize) {
    for _ in 0..at_most {
        let Some(step) = search.step() else { return };
        search.seen(seen(step, if step.rate_per_s > 100 { 33 } else { 0 }));
    }
}

/// What the recording of a search tells that has these steps and this result.
fn recorded(asked: Asked, steps: &[CeilingStepped], result: Option<Value>) -> CeilingRecorded {
    let mut recorded = CeilingRecorded::default();
    let began = [EventKind::CeilingBegan(asked)];
    let steps = steps.iter().map(|step| EventKind::CeilingStepped(Box::new(step.clone())));
    let ended = result.map(|result| EventKind::LimitsEnded { result });
    for (kind, mono_ns) in began.into_iter().chain(steps).chain(ended).zip(0..) {
        // By way of its line, as a recording has it.
        let event = Event { at: Timestamp::UNIX_EPOCH, mono_ns, connection: None, kind };
        let line = serde_json::to_string(&event).expect("a line");
        recorded.event(&serde_json::from_str(&line).expect("an event"));
    }
    recorded
}

fn result(search: &CeilingSearch) -> Value {
    search.outcome(7).json("there:7", None)
}

#[test]
fn search_and_its_recording_agree() {
    let mut search = CeilingSearch::new(ASKED);
    steps(&mut search, 99);
    let outcome = search.outcome(7);
    assert_eq!(outcome.verdict, Verdict::Found, "{outcome:#?}");
    let judged: Vec<Judged> = search.steps().iter().map(|step| step.judged).collect();
    let rates: Vec<u32> = search.steps().iter().map(|step| step.rate_per_s).collect();
    // 200, 160, 128, 102, 82, 66, 52: the first beyond 100 is 102.
    assert_eq!(rates, [52, 66, 82, 102, 82, 102]);
    assert_eq!(judged[3..], [Judged::Doubtful, Judged::Good, Judged::Beyond]);
    let whole = recorded(ASKED, search.steps(), Some(result(&search)));
    assert_eq!(whole.contradictions(true), []);
    assert_eq!(whole.outcome().map(|found| found.text("there:7")), Some(outcome.text("there:7")));
}

type Change = fn(&mut Vec<CeilingStepped>, &mut Value);

/// Each thing that may be wrong in a recording breaks a law, and the law that it breaks says so.
#[test]
fn every_change_of_a_recording_is_noticed() {
    let mut search = CeilingSearch::new(ASKED);
    steps(&mut search, 99);
    let sound = search.steps().to_vec();
    let changes: [(&str, Change); 16] = [
        ("of a step: due", |steps, _| steps[1].due += 1),
        ("of a step: due", |steps, _| steps[1].sent -= 1),
        ("of a step: due", |steps, _| steps[1].outstanding += 1),
        ("of a step: due", |steps, _| steps[1].again += 1),
        ("of a step: due", |steps, _| steps[2].windows.truncate(19)),
        ("of a step: due", |steps, _| steps[2].windows[3].delay_ns = None),
        ("of a step: due", |steps, _| (steps[2].windows[3].sent, steps[2].sent) = (0, steps[2].sent - 8)),
        ("a step has delays", |steps, _| steps[1].delays = None),
        ("a step has delays", |steps, _| {
            steps[1].delays.as_mut().expect("it has some").p50_ns = 1_000 * MS;
        }),
        ("steps come in the order", |steps, _| drop(steps.remove(1))),
        ("steps come in the order", |steps, _| steps.push(steps[5].clone())),
        ("steps come in the order", |steps, _| steps[2].earlier = true),
        ("a step is judged", |steps, _| steps[3].judged = Judged::Good),
        ("a step is judged", |steps, _| steps[3].worse = None),
        ("the result follows", |_, result| result["good"]["rate_per_s"] = 66.into()),
        ("the result follows", |_, result| result["verdict"] = "not_found".into()),
    ];
    for (nth, (law, change)) in changes.into_iter().enumerate() {
        let (mut steps, mut result) = (sound.clone(), result(&search));
        change(&mut steps, &mut result);
        let found = recorded(ASKED, &steps, Some(result)).contradictions(true);
        assert!(found.iter().any(|(broken, _)| broken.starts_with(law)), "change {nth}: {found:?}");
    }
    // Where events were lost, only what each step says by itself is asked for.
    let gap = recorded(ASKED, &sound[2..], Some(result(&search)));
    assert!(gap.contradictions(false).is_empty() && !gap.contradictions(true).is_empty());
    // Another search's result, which cannot be understood.
    let strange = recorded(ASKED, &sound, Some(serde_json::json!({"limit": "idle"})));
    assert!(strange.contradictions(false).iter().any(|(law, _)| law.contains("docs/limits.md")));
}

#[test]
fn interrupted_search_keeps_results_and_resumes() {
    for known in 1..6 {
        let mut search = CeilingSearch::new(ASKED);
        steps(&mut search, known);
        // Killed: no result. What is known stands in its steps.
        let killed = recorded(ASKED, search.steps(), None);
        assert_eq!(killed.contradictions(true), []);
        let outcome = killed.outcome().expect("some steps");
        assert_eq!((outcome.verdict, outcome.bad), (Verdict::Stopped, None));
        assert_eq!(outcome.good.map(|good| good.rate_per_s), [0, 52, 66, 82, 82, 82].get(known).copied());
        // Ended by somebody: with a result.
        search.stop(None);
        let ended = recorded(ASKED, search.steps(), Some(result(&search)));
        assert_eq!(ended.contradictions(true), []);
        for earlier in [killed, ended] {
            assert_eq!(earlier.why_not("there:7", "there:7", ASKED), None);
            let mut resumed = CeilingSearch::resumed(ASKED, earlier.steps());
            steps(&mut resumed, 99);
            let outcome = resumed.outcome(7);
            assert_eq!((outcome.verdict, outcome.earlier), (Verdict::Found, known as u64));
            assert!(outcome.text("there:7").contains("by an earlier search"), "{}", outcome.text("there:7"));
            let second = recorded(ASKED, resumed.steps(), Some(result(&resumed)));
            assert_eq!(second.contradictions(true), []);
        }
    }
}

#[test]
fn resume_needs_same_settings_and_unfinished_search() {
    let mut search = CeilingSearch::new(ASKED);
    steps(&mut search, 3);
    let earlier = recorded(ASKED, search.steps(), None);
    let why = |of: &str, asked| earlier.why_not(of, "there:7", asked).unwrap_or_default();
    assert!(why("here:7", ASKED).contains("a search of here:7"));
    assert!(why("there:7", Asked { up_to_per_s: 400, ..ASKED }).contains("give --rate-ceiling 200 too"));
    assert!(why("there:7", Asked { connections: 1, ..ASKED }).contains("give --connections 2 too"));
    steps(&mut search, 99);
    let over = recorded(ASKED, search.steps(), None);
    assert!(over.why_not("there:7", "there:7", ASKED).is_some_and(|why| why.contains("came to its end")));
    let nothing = recorded(ASKED, &[], None);
    assert!(nothing.why_not("there:7", "there:7", ASKED).is_some_and(|why| why.contains("no step")));
    assert_eq!(nothing.outcome(), None);
}

/// A host that could not keep a step may keep it another time; what it did not keep at the end is tried again.
#[test]
fn late_steps_are_retried_on_resume() {
    let mut search = CeilingSearch::new(ASKED);
    steps(&mut search, 2);
    for _ in 0..4 {
        let step = search.step().expect("it goes on");
        let mut late = Tally::new(step);
        (0..step.due_before(step.lasts_ns)).for_each(|n| late.sent(step.due_ns(n), step.due_ns(n) + 50 * MS));
        search.seen(late.seen());
    }
    assert_eq!((search.step(), search.outcome(7).verdict), (None, Verdict::Unclear));
    let earlier = recorded(ASKED, search.steps(), Some(result(&search)));
    assert_eq!((earlier.contradictions(true), earlier.why_not("a:7", "a:7", ASKED)), (Vec::new(), None));
    let mut resumed = CeilingSearch::resumed(ASKED, earlier.steps());
    assert_eq!((resumed.steps().len(), resumed.step().map(|step| step.rate_per_s)), (2, Some(82)));
    steps(&mut resumed, 99);
    assert_eq!(resumed.outcome(7).verdict, Verdict::Found);
}

/// The lowest rate is tried again below one that was worse: if much is lost there by then, it ends there, and stays ended.
#[test]
fn lowest_rate_turning_lossy_is_unclear() {
    let mut search = CeilingSearch::new(ASKED);
    for lost in [0, 40, 40] {
        let step = search.step().expect("it goes on");
        search.seen(seen(step, lost));
    }
    let outcome = search.outcome(7);
    assert_eq!((search.step(), outcome.verdict, outcome.bad), (None, Verdict::Unclear, None), "{outcome:#?}");
    assert_eq!(outcome.steps.last().map(|row| row.judged), Some(Judged::Lossy));
}

#[test]
fn picture_shows_each_rate_and_current_step() {
    let mut search = CeilingSearch::new(ASKED);
    steps(&mut search, 4);
    let picture = ceiling_picture(&search, 12_300 * MS, 80, 20);
    assert_eq!(picture[0], "after 12 s: 4 steps; 82/s is carried; now 82/s; 10 s to go if none is worse");
    // 52, 66 are good, 82 is tried again, 102 was worse, and three were not tried.
    assert_eq!(picture[1], "       52/s ++>x");
    assert!(picture[2].starts_with("102/s: 33") && picture[2].chars().count() < 80, "{picture:?}");
    assert!(picture[3].contains("+ as good as below") && picture.len() == 4);
    assert_eq!(ceiling_picture(&search, 0, 40, 20).len(), 1);
    assert_eq!(ceiling_picture(&search, 0, 80, 2).len(), 1);
    steps(&mut search, 99);
    assert_eq!(ceiling_picture(&search, 0, 80, 20)[1], "       52/s +++x");
}
