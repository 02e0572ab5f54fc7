//! `fathom probe`: the client. Threads: one probes (or several, each its own connections), one records, this one shows.

mod args;
mod client;
mod config;
mod drive;
mod effective;
mod formats;
mod keep;
mod live_state;
mod load;
mod operate;
mod outbox;
mod plain;
mod recorder;
mod resolve;
mod rotate;
mod show;
mod sinks;
mod stamp;
mod start;
mod stop;
mod tables;
mod terminal;
mod throughput;
mod tls;
mod unanswered;

pub(crate) use args::{Args, a_second, key_value, refuse_beside_client};
pub(crate) use config::{FABRIC_HOST, Family, Target, marks, tags};
pub(crate) use formats::LatteIntervals;
pub(crate) use keep::tool;
pub(crate) use resolve::lookup;
pub(crate) use start::session;
pub(crate) use stop::Stop;

use crate::exit::Failure;
use crate::output::{self, tell};
use crate::signals;
use args::OnFull;
use config::{Config, Path, Record, Show};
use drive::Driver;
use fathom_cloud::CloudWatch;
use fathom_core::probe::{RunEnd, Worker};
use fathom_core::schedule::Pace;
use fathom_core::statistics::Statistics;
use fathom_core::summary::{self, Heading, side_by_side};
use fathom_core::text::count;
use fathom_os::clock::{anchor, mono_ns};
use fathom_os::reactor::Reactor;
use jiff::Timestamp;
use live_state::{LiveState, LiveStates};
use operate::{Hook, Textfile};
use outbox::Bell;
use recorder::{CloudNotice, RunRecorder};
use rotate::Rotating;
use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Lines that may wait for a slow terminal before they are counted instead of shown.
const LINES_WAITING: usize = 4_096;

/// Runs the probe to its end and prints its summary.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let _log = crate::log::start(&args.log)?;
    let log_on_terminal = args.log.takes_the_terminal();
    if args.throughput.is_asked_for() {
        return throughput::run(args);
    }
    if let Some(file) = args.client.as_client.clone() {
        return client::run(args, &file);
    }
    let show_only = args.show_config;
    let config = Config::new(args)?;
    if show_only {
        return effective::show(&config);
    }
    tracing::info!(config = %effective::of_probe(&config), "what to measure");
    start::refuse_impolite(&config)?;
    start::refuse_missing_cpus(&config)?;
    start::make_room_in_memory()?;
    start::make_room_for_sockets(&config)?;
    let cannot = |what: &'static str| move |e: io::Error| Failure::run(format!("cannot {what}: {e}"));
    let workers = Worker::all(config.threads, config.paths.len());
    let reactors: io::Result<Vec<Reactor>> = workers.iter().map(|_| Reactor::new()).collect();
    let reactors = reactors.map_err(cannot("set up polling"))?;
    let stop = Stop::new(reactors.iter().map(Reactor::waker).collect());
    let on_signal = stop.clone();
    signals::on_request_to_end(move || on_signal.ask())?;

    let rate = config.rate_per_connection().map(|rate| rate * config.lanes() as f64);
    let bell = Bell::default();
    let packed = config.packs().then_some((&bell, config.record != Record::No));
    let (outboxes, rings): (Vec<_>, Vec<_>) =
        workers.iter().map(|_| outbox::channel(rate, workers.len(), packed)).unzip();
    let cpu_latency = start::hold_cpu_latency(&config);
    let state = |_| LiveState::new(&config.idle_gaps_ns);
    let live: LiveStates = Arc::new(Mutex::new(config.paths.iter().map(state).collect()));
    let (lines, printed) = std::sync::mpsc::sync_channel(LINES_WAITING);
    let session = session()?;

    let mut printing = Ok(());
    let (end, lines_lost, started_ns) = thread::scope(|scope| -> Result<(RunEnd, u64, u64), Failure> {
        let (tell_granted, granted) = std::sync::mpsc::channel();
        let (config, stop) = (&config, &stop);
        let (mut probing, mut ready_to_go) = (Vec::new(), Vec::new());
        for ((worker, reactor), outbox) in workers.into_iter().zip(reactors).zip(outboxes) {
            let (ready, go) = std::sync::mpsc::channel::<()>();
            ready_to_go.push(ready);
            let tell_granted = tell_granted.clone();
            // The machine's help is asked for by the thread that needs it, and what was granted goes into the recording.
            let thread = thread::Builder::new().name("probe".into()).spawn_scoped(scope, move || {
                let help = start::help_for_probing(config);
                if worker.speaks_for_the_run() {
                    let _ = tell_granted.send(help);
                }
                // Otherwise the recording could not be made: there is nothing to run.
                if go.recv().is_err() {
                    return Ok(RunEnd::default());
                }
                let (stop, clocks) = (stop.clone(), Box::new(anchor));
                let end = Driver::new(config, worker, reactor, outbox, stop.clone(), session, clocks).run();
                // What ends one of several threads for good ends them all, at once.
                if end.as_ref().map_or(true, |end| end.fatal.is_some()) {
                    stop.ask_at_once();
                }
                end
            });
            probing.push(thread.map_err(cannot("start a probing thread"))?);
        }
        let (hand_over, handed) = std::sync::mpsc::channel::<RunRecorder<'_>>();
        let (tell_recording, recording_granted) = std::sync::mpsc::channel();
        let recording = thread::Builder::new().name("record".into()).spawn_scoped(scope, move || {
            let _ = tell_recording.send(start::help_for_recording(config));
            // Without one the recording could not be made.
            handed.recv().map_or(0, RunRecorder::run)
        });
        let recording = recording.map_err(cannot("start the recording thread"))?;
        let mut granted = granted.recv().unwrap_or_default();
        granted.extend(recording_granted.recv().unwrap_or_default());
        let textfile = Textfile::start(scope, config, &live)?;
        let sinks =
            keep::open_sinks(config, &granted, cpu_latency.as_ref().map(|(told, _)| told.as_str()), &live)?;
        let on_terminal = io::stdout().is_terminal() && !config.json;
        let lines_wanted = config.operate.interval.is_some();
        let live_view = config.show == Show::Auto && on_terminal && !log_on_terminal && !lines_wanted;
        let rest = match packed {
            Some(_) => 700,
            None if live_view || config.show == Show::Plain || rate.is_none_or(|r| r > 200.0) => 50,
            None => 200,
        };
        let mut recorder =
            RunRecorder::new(rings, sinks, Arc::clone(&live), Duration::from_millis(rest), stop.clone());
        recorder.wake_by(Bell::clone(&bell));
        if config.on_full == OnFull::Exit {
            recorder.exit_on_full();
        }
        if !live_view {
            recorder.print_to(lines, config.show == Show::Plain);
        }
        recorder.rotate_by(Rotating::of(config));
        let hook = Hook::of(config, live_view)?.map(|(sender, hook)| {
            recorder.hand_events_to(sender);
            hook
        });
        let (tell_cloud, cloud) = std::sync::mpsc::channel();
        recorder.take_notices(cloud);
        // Ends with this scope, before the summary: it never holds a run up.
        let _watch = CloudWatch::start(&config.cloud, move |message| {
            let news = CloudNotice { at: Timestamp::now(), mono_ns: mono_ns(), message };
            // The recording may have ended already.
            let _ = tell_cloud.send(news);
        });
        // It waits for this.
        let _ = hand_over.send(recorder);
        // Nothing is under way yet.
        fathom_os::process::let_go_of_the_program();
        let started_ns = mono_ns();
        for ready in ready_to_go {
            let _ = ready.send(());
        }
        if live_view {
            show::live(config, &live, stop, || recording.is_finished());
        } else {
            printing = show::lines(config, &live, &printed, stop);
        }
        let recorded = recording.join();
        if recorded.is_err() {
            // Nobody takes the samples any more.
            stop.ask_at_once();
        }
        if let Some(hook) = hook {
            hook.finish();
        }
        drop(textfile);
        let mut end = RunEnd::default();
        for thread in probing {
            end.add(match thread.join() {
                Ok(Ok(one)) => one,
                Ok(Err(e)) => failed(format!("cannot go on probing: {e}")),
                Err(_) => failed("a probing thread failed; this is a bug".to_owned()),
            });
        }
        let lines_lost = recorded.map_err(|_| Failure::run("the recording thread failed; this is a bug"))?;
        Ok((end, lines_lost, started_ns))
    })?;

    let duration_ns = mono_ns() - started_ns;
    if lines_lost > 0 {
        tell!("fathom: {}", not_shown(lines_lost, config.record != Record::No));
    }
    conclude(&config, &live, &end, duration_ns).and(printing)
}

/// Lines that a terminal had no time for, and where they are nevertheless.
fn not_shown(lines: u64, recorded: bool) -> String {
    let kept = if recorded { " (the recording has all)" } else { "" };
    format!("{} not shown: this terminal was too slow{kept}", count(lines, "line"))
}

/// The end of a probing thread that could not go on.
fn failed(why: String) -> RunEnd {
    RunEnd { fatal: Some(why), ..RunEnd::default() }
}

/// Prints the summaries and decides how it all went.
fn conclude(config: &Config, live: &LiveStates, end: &RunEnd, duration_ns: u64) -> Result<(), Failure> {
    let live = live_state::lock(live);
    if !live_state::has_begun(&live) {
        keep::discard(config, &live);
        let each = || config.paths.iter().zip(live.iter());
        let ended_early = || {
            if config.keep_trying {
                return each()
                    .filter_map(|(path, state)| silent(config, path, state, end))
                    .collect::<Vec<_>>()
                    .join("; ");
            }
            "ended before there was a connection".to_owned()
        };
        let given_up = || Some(end.given_up.join("; ")).filter(|reasons| !reasons.is_empty());
        return Err(Failure::run(end.fatal.clone().or_else(given_up).unwrap_or_else(ended_early)));
    }
    let headings = config.paths.iter().zip(live.iter()).map(|(path, state)| {
        let heading = Heading {
            label: path.label.clone(),
            marks: config.marks.clone(),
            path: keep::labels(config),
            reflector: state.remote.clone().unwrap_or_else(|| path.target.to_string()),
            mode: config.mode().to_owned(),
            size: config.one_size(),
            sizes: config.sizes.clone(),
            interval_ns: match config.pace {
                Pace::Every(every) => Some(every),
                Pace::PingPong => None,
            },
            load: config.load.map(|load| summary::Load {
                asked_bits_per_s: load.bits_per_s,
                connections: load.connections,
            }),
            duration_ns: state.recorded_for_ns().unwrap_or(duration_ns),
            recording: state.recording.as_ref().map(|dir| dir.display().to_string()),
            queries: None,
        };
        (heading, &state.statistics)
    });
    let summaries: Vec<(Heading, &Statistics)> = headings.collect();
    let table = side_by_side::text(&summaries).filter(|_| !config.json && config.formats.words().is_empty());
    if let Some(table) = table {
        output::print("the summary", &format!("\n{table}"))?;
    } else {
        for (heading, statistics) in &summaries {
            let text = if config.json {
                summary::json(heading, statistics) + "\n"
            } else {
                let others = config.formats.text(heading, statistics);
                format!("\n{}{others}", summary::text(heading, statistics))
            };
            output::print("the summary", &text)?;
        }
    }
    if let Some(fatal) = &end.fatal {
        return Err(Failure::run(fatal.clone()));
    }
    // The others went on; that one was never reached is told by the exit code.
    if !end.given_up.is_empty() {
        return Err(Failure::run(end.given_up.join("; ")));
    }
    let paths = || config.paths.iter().zip(live.iter());
    for (path, state) in paths() {
        let incomplete: Vec<String> = state.incomplete().collect();
        if !incomplete.is_empty() {
            return Err(Failure::run(format!("{}: {}", path.label, incomplete.join("; "))));
        }
    }
    let silent: Vec<String> = paths().filter_map(|(path, state)| silent(config, path, state, end)).collect();
    if !silent.is_empty() {
        return Err(Failure::run(silent.join("; ")));
    }
    if end.lost {
        return Err(Failure::run("a connection was lost, and --no-reconnect says not to make another"));
    }
    let gone: Vec<String> = paths().filter_map(|(path, state)| gone(config, path, state, end)).collect();
    if gone.is_empty() { Ok(()) } else { Err(Failure::run(gone.join("; "))) }
}

/// What is to be said of a target that was never reached or answered nothing.
fn silent(config: &Config, path: &Path, state: &LiveState, end: &RunEnd) -> Option<String> {
    let (target, statistics) = (&path.target, &state.statistics);
    // With `--keep-trying` a target that is never reached ends nothing before the run's time is over.
    if let Some(why) = end.local.as_ref().filter(|_| statistics.failed_here()) {
        return Some(format!("{target} was never tried: {why}"));
    }
    if !statistics.was_reached() {
        return Some(format!(
            "{target} was never reached: no attempt to connect to it succeeded; is its reflector there (`fathom echo`), and do firewalls let it be reached?"
        ));
    }
    if statistics.samples == 0 || statistics.answered > 0 {
        return None;
    }
    if let Some(why) = end.refused.as_ref().filter(|_| config.tls.is_some()) {
        return Some(why.clone());
    }
    Some(if config.connect {
        let why = end.refused.as_ref().map_or_else(String::new, |why| format!("; the last attempt: {why}"));
        format!(
            "{target} accepted no connection; does anything listen there, and do firewalls let it be reached?{why}"
        )
    } else {
        unanswered::question(config, target, "answered nothing")
    })
}

/// What is to be said of a target that was there and went away for good.
fn gone(config: &Config, path: &Path, state: &LiveState, end: &RunEnd) -> Option<String> {
    let (target, outages) = (&path.target, &state.statistics.outages);
    let outage = if config.connect { outages.refused_to_the_end()? } else { outages.lost_for_good()? };
    let at = summary::date_and_time(outage.began_at);
    if let Some(why) = end.local.as_ref().filter(|_| outage.local) {
        return Some(format!("no connection to {target} could be begun from {at} UTC to the end: {why}"));
    }
    if config.connect {
        return Some(format!(
            "{target} accepted no connection from {at} UTC to the end; is its server still there?"
        ));
    }
    Some(format!(
        "the connection to {target} was lost at {at} UTC and did not come back; is its reflector still there?"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_lines_mention_recording_only_if_recorded() {
        assert_eq!(
            not_shown(2, true),
            "2 lines not shown: this terminal was too slow (the recording has all)"
        );
        assert_eq!(not_shown(1, false), "1 line not shown: this terminal was too slow");
    }
}
