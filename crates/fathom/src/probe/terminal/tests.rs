//! Whole pictures, drawn on ratatui's test terminal from live states filled with known samples and events.

use super::order::{By, Sort};
use super::view::Zoom;
use super::*;
use crate::probe::live_state::LiveState;
use crate::probe::live_state::lock;
use fathom_core::cause::ClosingCause;
use fathom_core::event::{Event as RunEvent, EventKind, Evidence};
use fathom_core::sample::{Flags, Sample};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::{Color, Modifier};
use std::sync::{Arc, Mutex};

/// Any moment will do; this one reads 10:00:00 UTC.
const START_S: i64 = 1_795_255_200;

/// When the pictures are of.
const AT: Moment =
    Moment { elapsed: Duration::from_secs(754), now_s: START_S + 100, mono_ns: 754_000_000_000 };

fn event(after_s: i64, kind: EventKind) -> RunEvent {
    let at = Timestamp::from_second(START_S + after_s).unwrap();
    RunEvent { at, mono_ns: after_s as u64, connection: Some(0), kind }
}

fn opened() -> RunEvent {
    let [target, local, remote] = ["h", "10.0.0.1:40000", "10.0.0.4:7007"].map(String::from);
    event(
        0,
        EventKind::ConnectionOpened {
            target,
            local,
            remote,
            connect_ns: 250_000,
            tls_ns: None,
            interface: None,
            lane: Some(0),
        },
    )
}

fn stalled() -> RunEvent {
    event(60, EventKind::StallBegan { seq: 57, outstanding: 3, threshold_ns: 200_000_000 })
}

/// A path with samples of 100, 101, 102 … µs, one a second.
fn path(samples: i64) -> LiveState {
    let mut state = LiveState { recording: Some("recordings/zone-a".into()), ..LiveState::default() };
    state.event(&opened());
    for i in 0..samples {
        let sent_ns = (START_S + i) * 1_000_000_000;
        state.sample(&Sample {
            seq: i as u64,
            sent_ns,
            rtt_ns: Some(100_000 + i * 1_000),
            ..Sample::default()
        });
    }
    state
}

fn live(paths: impl IntoIterator<Item = LiveState>) -> LiveStates {
    Arc::new(Mutex::new(paths.into_iter().collect()))
}

fn buffer(
    size: (u16, u16),
    labels: &[&str],
    live: &LiveStates,
    view: &View,
    coloured: bool,
) -> ratatui::buffer::Buffer {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
    let glance = Glance::of(live, live);
    let plan = Plan::new(terminal.get_frame().area(), labels, &glance.errors, view);
    let picture = Picture::of(live, AT, labels, &glance, view, &plan, coloured);
    terminal.draw(|frame| picture.draw(frame)).unwrap();
    terminal.backend().buffer().clone()
}

fn lines(size: (u16, u16), labels: &[&str], live: &LiveStates, view: &View) -> Vec<String> {
    let buffer = buffer(size, labels, live, view, true);
    let row = |y| (0..size.0).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..size.1).map(row).collect()
}

fn row_of<'a>(lines: &'a [String], what: &str) -> Vec<&'a str> {
    let line =
        lines.iter().find(|line| line.contains(what)).unwrap_or_else(|| panic!("no {what} in {lines:#?}"));
    line.split_whitespace().collect()
}

#[test]
fn path_shows_figures_and_dashes_unsupported_ones() {
    // 100 samples of 100 to 199 µs: by nearest rank p50 is 149 µs and p95 194 µs; 100 support no 99th percentile.
    let lines = lines((120, 40), &["zone-a"], &live([path(100)]), &View::default());
    assert_eq!(
        row_of(&lines, "> zone-a"),
        ["10.0.0.4:7007", "1", "100", "0/0", "199.0µs", "149.0µs", "194.0µs", "–", "–", "199.0µs"]
            .iter()
            .fold(vec![">", "zone-a", "ok"], |mut row, cell| {
                row.push(cell);
                row
            })
    );
    let styled = buffer((120, 40), &["zone-a"], &live([path(100)]), &View::default(), true);
    let dim = |symbol| {
        styled.content().iter().filter(|c| c.symbol() == symbol).any(|c| c.modifier.contains(Modifier::DIM))
    };
    assert!(dim("─") && dim("│") && !dim("●") && !styled[(0, 0)].modifier.contains(Modifier::DIM));
    let all = lines.join("\n");
    assert!(
        lines[0].starts_with("fathom  12m 34s  recording ")
            && lines[0].contains("Ctrl-C ends the run, q too")
    );
    assert!(all.contains("recording into recordings/zone-a"), "{all}");
    assert!(all.contains("10:00:00  #0 connected 10.0.0.1:40000 -> 10.0.0.4:7007 in 250us"), "{all}");
    assert!(all.contains("↑p50") && all.contains("p95↑") && !all.contains("p99↑"), "{all}");
    assert_eq!(all.matches('●').count(), 50, "one in each column of two seconds: {all}");
}

#[test]
fn every_percentile_fits_eighty_columns() {
    let lines = lines((80, 24), &["zone-a"], &live([path(100)]), &View::default());
    let row = row_of(&lines, "> zone-a");
    assert_eq!(row, [">", "zone-a", "ok", "0/0", "199µs", "149µs", "194µs", "–", "–", "199µs"]);
    let all = lines.join("\n");
    assert!(all.contains("100 samples, 0 unanswered, 0 late, 1 connection open"), "{all}");
    assert!(
        all.contains("round trips of the whole run, log axis") && all.contains("a column, linear"),
        "{all}"
    );
}

#[test]
fn states_are_words_and_colour_only_repeats_them() {
    let mut stall = path(60);
    stall.event(&stalled());
    let mut gone = path(60);
    let cause = ClosingCause::Reset;
    let evidence = Evidence::default();
    gone.event(&event(
        61,
        EventKind::ConnectionClosed {
            cause,
            verdict: None,
            errno: Some(104),
            age_ns: 61_000_000_000,
            evidence,
        },
    ));
    let live = live([path(60), stall, gone]);
    let labels = ["steady", "silent", "broken"];
    let view = View { selected: 1, ..View::default() };
    let shown = lines((80, 24), &labels, &live, &view);
    assert!(row_of(&shown, "  steady").contains(&"ok"), "{shown:#?}");
    assert!(row_of(&shown, "> silent").contains(&"STALLED"), "{shown:#?}");
    assert!(row_of(&shown, "  broken").join(" ").starts_with("broken not connected 0/0 – "), "{shown:#?}");
    assert!(shown[0].contains("1 STALLED  1 not connected"), "{shown:#?}");
    let all = shown.join("\n");
    assert!(all.contains("silent  10.0.0.4:7007  (path 2 of 3)"), "{all}");
    assert!(all.contains("10:01:00  #0 stalled: no echo of sample 57 (3 outstanding)"), "{all}");

    let red = |coloured| {
        let buffer = buffer((80, 24), &labels, &live, &view, coloured);
        buffer.content().iter().any(|cell| cell.fg == Color::Red)
    };
    assert!(red(true));
    let without = buffer((80, 24), &labels, &live, &view, false);
    assert!(without.content().iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    assert!(without.content().iter().any(|cell| cell.modifier.contains(Modifier::BOLD)));
}

#[test]
fn marks_align_with_unanswered_and_late_seconds() {
    let mut state = path(60);
    let at = |s: i64| Sample { sent_ns: (START_S + s) * 1_000_000_000, ..Sample::default() };
    state.sample(&Sample { flags: Flags::UNANSWERED, ..at(80) });
    state.sample(&Sample { flags: Flags::ANSWERED_LATE, rtt_ns: Some(6_000_000_000), ..at(90) });
    let lines = lines((109, 40), &["zone-a"], &live([state]), &View::default());
    // 109 columns less the scale are 101: a second a column would need one more, so that there are two to a column;
    // now is the second 100, at the right edge, in the column of the even second and the next.
    let marks =
        lines.iter().find(|line| line.trim_start().starts_with("x ")).unwrap_or_else(|| panic!("{lines:#?}"));
    let column = |sign| marks.chars().position(|c| c == sign);
    assert_eq!((column('x'), column('l')), (Some(108 - 10), Some(108 - 5)), "{marks}");
    assert!(lines.iter().any(|line| line.contains("log scale")), "{lines:#?}");
    assert!(row_of(&lines, "> zone-a").contains(&"1/1"), "{lines:#?}");
}

#[test]
fn stopped_recording_is_shown_at_every_size() {
    let live = live([path(5), path(5)]);
    lock(&live)[1].recording_error = Some("No space left on device".into());
    for size in [(40, 10), (80, 24), (200, 60)] {
        let lines = lines(size, &["a", "b"], &live, &View::default());
        assert!(lines[1].contains("RECORDING STOPPED"), "{lines:#?}");
        assert!(lines[0].contains("recording 1 of 2"), "{lines:#?}");
    }
    let lines = lines((80, 24), &["a", "b"], &live, &View::default());
    assert!(lines[1].contains("b: No space left on device"), "{lines:#?}");
}

/// A full `--csv` was a recording that had stopped.
#[test]
fn stopped_csv_is_not_a_stopped_recording() {
    let live = live([path(5)]);
    lock(&live)[0].table_errors = vec!["x.csv (--csv) is incomplete: No space left".into()];
    for size in [(40, 10), (80, 24), (200, 60)] {
        let lines = lines(size, &["a"], &live, &View::default());
        assert!(lines[1].contains("FILE OF ROWS STOPPED a: x.csv"), "{lines:#?}");
        assert!(lines[0].contains("  recording"), "{lines:#?}");
        assert!(!lines.iter().any(|line| line.contains("RECORDING STOPPED")), "{lines:#?}");
    }
}

#[test]
fn forty_by_ten_shows_what_matters() {
    let lines = lines((40, 10), &["zone-a"], &live([path(400)]), &View::default());
    assert_eq!(row_of(&lines, "> zone-a"), [">", "zone-a", "ok", "499µs", "299µs"]);
    assert!(lines.iter().any(|line| line.contains("10:00:00  #0 connected")), "{lines:#?}");
    // 400 samples of 100 to 499 µs: p95 is the 380th, p99 the 396th.
    assert!(
        lines.iter().any(|line| line.starts_with("p99 495µs, p99.9 –, max 499µs, p95 479µs")),
        "{lines:#?}"
    );
    assert!(lines.iter().any(|line| line.contains("400 samples, 0 unanswered, 0 late ")), "{lines:#?}");
    assert!(lines[0].contains("q ends"), "{lines:#?}");
}

#[test]
fn long_labels_keep_both_ends() {
    let labels = ["east-1-to-east-2-by-peering-a", "east-1-to-east-2-by-peering-b"];
    let lines = lines((80, 24), &labels, &live([path(1), path(1)]), &View::default());
    assert!(
        lines[2].starts_with("> east-1") && lines[2].contains("…") && lines[2].contains("ring-a "),
        "{lines:#?}"
    );
    assert!(lines[3].starts_with("  east-1") && lines[3].contains("ring-b "), "{lines:#?}");
}

#[test]
fn selected_path_stays_visible_among_many() {
    let names: Vec<String> = (0..50).map(|i| format!("path-{i:02}")).collect();
    let labels: Vec<&str> = names.iter().map(String::as_str).collect();
    let live = live((0..50).map(path));
    for selected in [0, 1, 25, 48, 49] {
        let view = View { selected, ..View::default() };
        let lines = lines((80, 24), &labels, &live, &view);
        assert!(lines.iter().any(|line| line.starts_with(&format!("> path-{selected:02}"))), "{lines:#?}");
    }
}

/// Draws each state at terminals of each of some widths and each `every`th height.
fn draw_every_state(every: usize) {
    let mut odd = path(700);
    odd.event(&stalled());
    odd.recording_error = Some("the disk is full\nand more\tthan that".into());
    odd.sample(&Sample { sent_ns: i64::MIN, rtt_ns: Some(i64::MAX / 4), ..Sample::default() });
    odd.sample(&Sample { sent_ns: i64::MAX, rtt_ns: Some(0), ..Sample::default() });
    odd.sample(&Sample {
        sent_ns: (START_S + 99) * 1_000_000_000,
        flags: Flags::UNANSWERED,
        ..Sample::default()
    });
    let cases = [
        (vec![], live([])),
        (vec!["zone-a"], live([LiveState::default()])),
        (vec!["zone-a"], live([path(1)])),
        (vec!["", "größer 东京", "c"], live([path(100), odd, LiveState::default()])),
    ];
    let widths = [1, 2, 4, 7, 8, 9, 10, 13, 20, 33, 40, 79, 80, 109, 110].into_iter();
    for (labels, live) in &cases {
        buffer((300, 100), labels, live, &View::default(), true);
        for width in widths.clone() {
            for height in (1..26).skip(usize::from(width) % every).step_by(every).chain([60]) {
                let view = View {
                    selected: labels.len().min(2).saturating_sub(1),
                    help: (width + height) % 3 == 0,
                    asked: u32::from(height % 3),
                    paused: height % 2 == 0,
                    zoom: [Zoom::Fit, Zoom::Second, Zoom::Minute][usize::from(width % 3)],
                    fit_s: None,
                    sort: Sort { by: By::P99, turned: width % 2 == 0 },
                    order: (0..labels.len()).rev().collect(),
                };
                buffer((width, height), labels, live, &view, width % 2 == 0);
            }
        }
    }
}

#[test]
fn every_size_and_state_draws_without_panic() {
    draw_every_state(5);
}

#[test]
fn shrinking_terminal_does_not_break_drawing() {
    let live = live([path(100)]);
    let (labels, view) = (["zone-a"], View { help: true, ..View::default() });
    let glance = Glance::of(&live, &live);
    let plan = Plan::new(ratatui::layout::Rect::new(0, 0, 150, 50), &labels, &glance.errors, &view);
    let picture = Picture::of(&live, AT, &labels, &glance, &view, &plan, true);
    for size in [(1, 1), (9, 50), (150, 4), (40, 10)] {
        Terminal::new(TestBackend::new(size.0, size.1)).unwrap().draw(|frame| picture.draw(frame)).unwrap();
    }
}

#[test]
fn paused_display_still_shows_recording_errors() {
    let live = live([path(100)]);
    let still: LiveStates = copied(&live);
    let view = View { paused: true, ..View::default() };
    lock(&live)[0].sample(&Sample { sent_ns: (START_S + 100) * 1_000_000_000, ..Sample::default() });
    lock(&live)[0].recording_error = Some("No space left on device".into());
    for size in [(40, 10), (80, 24), (120, 40)] {
        let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
        let glance = Glance::of(&still, &live);
        let plan = Plan::new(terminal.get_frame().area(), &["zone-a"], &glance.errors, &view);
        let picture = Picture::of(&still, AT, &["zone-a"], &glance, &view, &plan, true);
        terminal.draw(|frame| picture.draw(frame)).unwrap();
        let shown = terminal.backend().to_string();
        assert!(shown.contains("PAUSED, measuring goes on"), "{shown}");
        assert!(shown.contains("RECORDING STOPPED"), "{shown}");
        assert!(shown.contains("100 samples") && !shown.contains("101"), "{shown}");
    }
    assert_eq!(Glance::of(&still, &live), Glance::of(&still, &live), "nothing to draw again");
}

#[test]
fn rows_and_header_follow_sort_order() {
    // One sample a second, each a microsecond longer than the one before: the longer path has the larger figures.
    let live = live([path(70), path(400), path(90)]);
    let labels = ["b-short", "c-long", "a-mid"];
    let sorted = |sort| {
        let order = order::order(&labels, &order::Figures::of(&live, sort), sort);
        lines((120, 24), &labels, &live, &View { sort, order, selected: 2, ..View::default() })
    };
    let names = |lines: &[String]| -> Vec<String> {
        let row = |line: &String| line.trim_start_matches("> ").split_whitespace().next().map(str::to_owned);
        lines[2..5].iter().filter_map(row).collect()
    };
    let by = |by| sorted(Sort { by, turned: false });
    assert_eq!(names(&by(By::Given)), labels);
    let shown = by(By::Name);
    assert_eq!(names(&shown), ["a-mid", "b-short", "c-long"]);
    assert!(shown[1].contains("path↑") && shown[2].starts_with("> a-mid"), "{shown:#?}");
    let shown = by(By::Max);
    assert_eq!(names(&shown), ["c-long", "a-mid", "b-short"]);
    assert!(shown[1].contains("max↓") && shown[0].contains("by max, largest first"), "{shown:#?}");
    // 70 and 90 samples support no 99th percentile: those paths are last, as they were given.
    let shown = by(By::P99);
    assert_eq!(names(&shown), ["c-long", "b-short", "a-mid"]);
    assert!(shown[1].contains("p99↓"), "{shown:#?}");
    let shown = sorted(Sort { by: By::P50, turned: true });
    assert_eq!(names(&shown), ["b-short", "a-mid", "c-long"]);
    assert!(shown[1].contains("p50↑"), "{shown:#?}");
}

#[test]
fn zoom_and_reset_time_are_displayed() {
    let live = live([path(100)]);
    for (zoom, words) in
        [(Zoom::Second, "1s a column"), (Zoom::TenSeconds, "10s a column"), (Zoom::Minute, "1m 0s a column")]
    {
        let shown = lines((120, 40), &["zone-a"], &live, &View { zoom, ..View::default() }).join("\n");
        assert!(shown.contains(words), "{shown}");
    }
    lock(&live)[0].reset(Timestamp::from_second(START_S + 100).unwrap());
    lock(&live)[0].sample(&Sample {
        sent_ns: (START_S + 100) * 1_000_000_000,
        rtt_ns: Some(5_000),
        ..Sample::default()
    });
    let shown = lines((140, 40), &["zone-a"], &live, &View::default()).join("\n");
    assert!(shown.contains("figures since 10:01:40 UTC"), "{shown}");
    assert!(shown.contains("round trips since 10:01:40") && shown.contains("1 sample,"), "{shown}");
    assert!(shown.contains("1 connection open "), "{shown}");
}

/// A path that had lost its connection said "0 unanswered", and not since when there was none.
#[test]
fn outage_shows_start_and_duration() {
    let mut gone = path(60);
    let evidence = Evidence { answered: 60, sent: 60, ..Evidence::default() };
    let closed = EventKind::ConnectionClosed {
        cause: ClosingCause::Reset,
        verdict: None,
        errno: Some(104),
        age_ns: 0,
        evidence,
    };
    gone.event(&event(61, closed));
    let shown = lines((140, 30), &["zone-a"], &live([gone]), &View::default()).join("\n");
    assert!(shown.contains("not connected"), "{shown}");
    assert!(shown.contains("no connection since 10:01:01 UTC (12m 33s)"), "{shown}");
}

mod acceptance {
    use super::*;

    #[test]
    fn every_size_and_state_draws_without_panic() {
        draw_every_state(1);
    }
}
