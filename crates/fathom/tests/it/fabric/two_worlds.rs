//! One probe, two worlds: the same faults through the driver over sockets, in network namespaces and real time, and
//! through the driver over smoltcp, in virtual time, leave the same events in the same order on each connection.
//!
//! Each fault is made twice and once more as the last thing of the run, at the default pace and at ten and a hundred
//! times that. In real time a script waits for what the probe recorded of a fault before it makes the next one, so that
//! the machine's speed decides nothing.
//!
//! `make test` plays the scripts in virtual time alone.
mod recorded;
mod script;
use crate::support::fabric::Fabric;
use crate::support::faults::lost_for_good;
use crate::support::probe::{Probe, assert_sound, fathom, wait_for_events};
use crate::support::rows::{Events, events, has_kind, of_kind};
use crate::support::{FATHOM, Kept};
use recorded::{Recorded, long_pauses, long_stalls, stories};
use script::{FAULT, Fault, LAST, RATES, SCRIPTS, Script, scenario};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// The world of namespaces and real time.
const SOCKETS: &str = "sockets";
const VIRTUAL: &str = "virtual time";
/// Samples are answered for so long before the first fault, and between two.
const QUIET: Duration = Duration::from_secs(3);
/// How far into its last silence a run is ended: well beyond what TCP repairs by itself.
const INTO_THE_SILENCE: Duration = Duration::from_millis(2_500);

/// All scripts in virtual time.
fn simulate() -> TempDir {
    let home = tempfile::tempdir().expect("a directory");
    std::fs::write(home.path().join("scenario.toml"), scenario(true)).expect("a file");
    let outcome = fathom(home.path(), &["fabric", "simulate", "scenario.toml", "--record", "recorded"]);
    assert_eq!(outcome.code(), 0, "{}", outcome.err);
    home
}

/// A script that is being played in real time.
struct Play<'a> {
    script: &'static Script,
    fabric: &'a Fabric,
    reflector: Option<Kept>,
    /// One for each rate, and where it records.
    probes: Vec<(Probe, PathBuf)>,
}

impl<'a> Play<'a> {
    fn begin(script: &'static Script, fabric: &'a Fabric) -> Self {
        let reflector = Some(fabric.reflector(&script.server()));
        let probe = |(rate, &(_, every)): (usize, &(&str, &str))| {
            let label = script.label(rate);
            let (target, source) = (script.target(rate), script.client_address(rate));
            let arguments = format!(
                "{target} --source {source} --every {every} --user-timeout {} --keep-trying",
                script.user_timeout
            );
            let probe = match script.hosts(rate) {
                None => fabric.probe(&script.client(), &label, &arguments),
                Some(hosts) => named(fabric, script, &label, &hosts, &arguments),
            };
            (probe, fabric.path(&label))
        };
        let probes = RATES.iter().enumerate().map(probe).collect();
        Self { script, fabric, reflector, probes }
    }

    fn play(mut self) {
        self.wait_for("connections", |events| has_kind(events, "connection.opened"));
        thread::sleep(QUIET);
        for nth in 1..=2 {
            self.make(FAULT);
            let story = self.script.story;
            self.wait_for("the end of the fault", |events| story.tells(events, nth));
            thread::sleep(QUIET);
        }
        if self.script.story.has_a_silence() {
            self.make(LAST);
            self.wait_for("the last silence", |events| self.script.story.reaches_its_last_silence(events));
            // The silence is what is tried here: what is shorter is left out of the comparison.
            thread::sleep(INTO_THE_SILENCE);
        } else {
            self.make(FAULT);
            let story = self.script.story;
            self.wait_for("the end of the last fault", |events| story.tells(events, 3));
        }
        for (probe, _) in &self.probes {
            // At once: two of one signal may be taken for one.
            probe.signal("INT");
            probe.signal("TERM");
        }
        for (probe, dir) in self.probes {
            let outcome = probe.finish();
            // A run may end before its last fault is over.
            let code = i32::from(lost_for_good(&events(&dir)));
            assert_eq!(outcome.code(), code, "{}: {}", dir.display(), outcome.err);
        }
    }

    /// Makes the fault.
    fn make(&mut self, length: Duration) {
        match self.script.fault {
            Fault::Restart => {
                drop(self.reflector.take());
                self.wait_for("a refusal", |events| {
                    let count = |kind: &str| of_kind(events, kind).len();
                    let at = events.iter().rposition(|event| event["kind"] == "connection.closed");
                    at.is_some_and(|at| has_kind(&events[at..], "connection.refused"))
                        && count("connection.opened") == count("connection.closed")
                });
                if length == FAULT {
                    self.reflector = Some(self.fabric.reflector(&self.script.server()));
                }
            }
            Fault::Event(..) => {
                for (kind, parameters) in self.script.events(length) {
                    self.fabric.must("event", &format!("{kind} {}", parameters.join(" ")));
                }
            }
        }
    }

    /// Waits until a condition holds of what every probe has recorded.
    fn wait_for(&self, what: &str, holds: impl Fn(&Events) -> bool) {
        for (_, dir) in &self.probes {
            wait_for_events(dir, &format!("{what} ({})", dir.display()), &holds);
        }
    }
}

/// A probe whose target's name leads to several addresses: a hosts file of its own.
fn named(fabric: &Fabric, script: &Script, label: &str, hosts: &str, arguments: &str) -> Probe {
    let file = fabric.path(&format!("hosts-{label}"));
    std::fs::write(&file, hosts).expect("a hosts file");
    let mut command = fabric.exec(&script.client(), "sh");
    let bind = format!("mount --bind {} /etc/hosts && exec \"$@\"", file.display());
    command.args(["-c", &bind, "sh", FATHOM, "probe", "--json", "--quiet", "--record", label]);
    Probe::spawn(command.args(arguments.split(' ')))
}

/// The first difference between a recording of a script and what the fault is known to be.
fn difference(script: &Script, rate: usize, world: &str, recorded: &Recorded) -> Option<String> {
    let expected = script.story.expected(script.hosts(rate).is_some());
    recorded
        .broken_law()
        .or_else(|| {
            let told = stories(&recorded.events, |verdict| script.story.may_be_said_at_the_end(verdict));
            let told = if world == SOCKETS { script.story.as_told(told) } else { told };
            (told != expected).then(|| format!("{told:#?}\nis not {expected:#?}"))
        })
        .or_else(|| long_stalls(recorded, rate, script.story))
        .or_else(|| recorded.wrong_direction(script.direction))
        .or_else(|| {
            let (host, faults) = script.story.pauses()?;
            let told = long_pauses(&recorded.events, host);
            (told != faults).then(|| format!("{told} long pauses of the {host} host, not {faults}"))
        })
}

/// Compares a recording of a script with what the fault is known to be. Prints a difference.
fn agrees(script: &Script, rate: usize, world: &str, dir: &Path) -> bool {
    assert_sound(dir);
    let recorded = Recorded::read(dir);
    let difference = difference(script, rate, world, &recorded);
    if let Some(difference) = &difference {
        eprintln!("{} at rate {}, {world}: {difference}", script.name, RATES[rate].0);
        for event in &recorded.events {
            eprintln!("    {event}");
        }
    }
    difference.is_none()
}

#[test]
fn simulated_faults_record_expected_events() {
    let simulated = simulate();
    let wrong: Vec<_> = SCRIPTS
        .iter()
        .filter(|script| {
            let dir = simulated.path().join("recorded").join(script.label(1));
            !agrees(script, 1, VIRTUAL, &dir)
        })
        .map(|script| script.name)
        .collect();
    assert!(wrong.is_empty(), "these scripts went otherwise: {wrong:?}");
}

mod acceptance {
    use super::*;

    #[test]
    fn real_and_simulated_faults_record_same_events() {
        let text = scenario(false);
        let Some(fabric) = Fabric::up(&text) else { return };
        let simulated = simulate();
        thread::scope(|scope| {
            let begun: Vec<_> = SCRIPTS
                .iter()
                .map(|script| {
                    let fabric = &fabric;
                    let whole = move || Play::begin(script, fabric).play();
                    let thread = thread::Builder::new().name(script.name.to_owned());
                    (script, thread.spawn_scoped(scope, whole).expect("a thread"))
                })
                .collect();
            let wrong: Vec<String> = begun
                .into_iter()
                .filter_map(|(script, thread)| {
                    let real = thread.join().ok();
                    let wrong = real.is_none_or(|()| !agree(script, &fabric, simulated.path()));
                    wrong.then(|| script.name.to_owned())
                })
                .collect();
            assert!(wrong.is_empty(), "these scripts went otherwise: {wrong:?}");
        });
        fabric.down();
    }

    /// Compares the recordings of both worlds with what the fault is known to be.
    fn agree(script: &Script, fabric: &Fabric, simulated: &Path) -> bool {
        let mut all_agree = true;
        for rate in 0..RATES.len() {
            let label = script.label(rate);
            let worlds = [(SOCKETS, fabric.path(&label)), (VIRTUAL, simulated.join("recorded").join(&label))];
            for (world, dir) in worlds {
                all_agree &= agrees(script, rate, world, &dir);
            }
        }
        all_agree
    }
}
