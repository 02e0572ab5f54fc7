//! The scripts: on which path, which fault, and what is known of it beforehand.

use super::recorded::{long_pauses, lost_silence, stories};
use crate::support::rows::Events;
use std::fmt::Write as _;
use std::time::Duration;

/// The default pace, ten times and a hundred times as fast.
pub(crate) const RATES: [(&str, &str); 3] = [("1", "1s"), ("10", "100ms"), ("100", "10ms")];
/// How long a fault lasts.
pub(crate) const FAULT: Duration = Duration::from_secs(4);
/// How long the last one lasts: the run ends before it does.
pub(crate) const LAST: Duration = Duration::from_mins(1);
/// In virtual time: when the faults begin, and when the run ends.
const AT_S: [u64; 3] = [8, 24, 40];
const END_S: u64 = 46;
/// One way. Four round trips are longer than what a busy machine adds, and shorter than any fault.
const DELAY: &str = "50ms";

/// What is done.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// An event of the fabric: kind, and `KEY=VALUE`s in which `{path}`, `{client}`, `{server}`, `{box}` and `{for}` stand
    /// for this script's.
    Event(&'static str, &'static str),
    /// The reflector ends, and another one begins.
    Restart,
}

/// What becomes of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Story {
    /// It survives one silence, with this verdict.
    Survives(&'static str),
    /// It survives and nothing is told.
    Nothing,
    /// It survives: its own host did not run.
    Paused,
    /// It is ended at once: cause, verdict.
    Ends(&'static str, &'static str),
    /// It is ended after a silence: cause, verdict.
    Dies(&'static str, &'static str),
    /// It is ended, and nobody listens for a while: verdict.
    Refused(&'static str),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    /// What stands on the way, but for its name.
    middlebox: Option<&'static str>,
    pub(crate) user_timeout: &'static str,
    pub(crate) fault: Fault,
    pub(crate) story: Story,
    /// Which way is lost, where the probe may know.
    pub(crate) direction: Option<&'static str>,
    /// The target is a name, and the first of its addresses is dead.
    dead_address: bool,
}

const PLAIN: Script = Script {
    name: "",
    middlebox: None,
    user_timeout: "30s",
    fault: Fault::Restart,
    story: Story::Nothing,
    direction: None,
    dead_address: false,
};

#[rustfmt::skip]
pub(crate) const SCRIPTS: [Script; 11] = [
    Script { name: "cut", story: Story::Survives("path_down"),
        fault: Fault::Event("link-cut", "path={path} duration={for}"), ..PLAIN },
    Script { name: "cut-there", story: Story::Survives("path_down"), direction: Some("forward"),
        fault: Fault::Event("link-cut", "path={path} direction=forward duration={for}"), ..PLAIN },
    Script { name: "cut-back", story: Story::Survives("path_down"), direction: Some("return"),
        fault: Fault::Event("link-cut", "path={path} direction=backward duration={for}"), ..PLAIN },
    Script { name: "switchover", story: Story::Survives("path_down"), middlebox: Some("kind = \"gateway\""),
        fault: Fault::Event("switchover", "middlebox={box} outage={for} forget=false"), ..PLAIN },
    Script { name: "reset", story: Story::Ends("reset", "flow_forgotten"),
        middlebox: Some("kind = \"firewall\"\nunknown = \"reset\""),
        fault: Fault::Event("flush-flows", "middlebox={box}"), ..PLAIN },
    Script { name: "forgotten", story: Story::Dies("timed_out", "flow_forgotten"),
        middlebox: Some("kind = \"firewall\"\nunknown = \"drop\""), user_timeout: "8s",
        fault: Fault::Event("flush-flows", "middlebox={box}"), ..PLAIN },
    Script { name: "frozen", story: Story::Survives("peer_paused"),
        fault: Fault::Event("host-pause", "host={server} duration={for}"), ..PLAIN },
    Script { name: "own-frozen", story: Story::Paused,
        fault: Fault::Event("host-pause", "host={client} duration={for}"), ..PLAIN },
    Script { name: "restart", story: Story::Refused("peer_down"), ..PLAIN },
    Script { name: "burst", story: Story::Nothing,
        fault: Fault::Event("link-cut", "path={path} duration=300ms"), ..PLAIN },
    Script { name: "dead-address", story: Story::Survives("path_down"), dead_address: true,
        fault: Fault::Event("link-cut", "path={path} duration={for}"), ..PLAIN },
];

impl Story {
    /// Whether the run can be ended in the midst of it.
    pub(crate) fn has_a_silence(self) -> bool {
        !matches!(self, Self::Nothing | Self::Paused | Self::Ends(..))
    }

    /// Whether so many faults have been told to their end.
    pub(crate) fn tells(self, events: &Events, nth: usize) -> bool {
        let told: Vec<String> = stories(events, |_| true).concat();
        let count = |beginning: &str| told.iter().filter(|told| told.starts_with(beginning)).count();
        match self {
            Self::Nothing => true,
            Self::Paused => long_pauses(events, "local") >= nth,
            Self::Survives(_) => count("stall:") >= nth,
            Self::Ends(..) | Self::Dies(..) | Self::Refused(_) => {
                count("closing:") >= nth && count("opened") > nth
            }
        }
    }

    /// Whether the run is in its third silence, or nobody listens for the third time.
    pub(crate) fn reaches_its_last_silence(self, events: &Events) -> bool {
        match self {
            Self::Refused(_) => stories(events, |_| true).get(3).is_some_and(|told| told == &["refused"]),
            _ => lost_silence(events),
        }
    }

    /// What a fabric of namespaces may make be told in two ways, in one of them.
    ///
    /// A process that ends closes its connections in order, unless a request lies unread: then its kernel resets them.
    /// Which of both is chance.
    ///
    /// The fabric stops a host's processes some milliseconds after it holds its packets. An echo that left its process
    /// meanwhile is older than the pause, and says that the way back held it up, which is so; the next one tells of the
    /// pause.
    /// In the same way a sample that the probe's process sent meanwhile waits for all of its own host's pause, and that is
    /// a stall; in which the run is ended, where its echo does not come at once after the last one.
    pub(crate) fn as_told(self, mut told: Vec<Vec<String>>) -> Vec<Vec<String>> {
        let (one, other) = match self {
            Self::Refused(_) => ("closed: reset", "closed: peer_closed"),
            Self::Survives("peer_paused") => ("stall: path_down", "stall: peer_paused"),
            Self::Paused => {
                // Of such a stall less may be known.
                let own = [
                    "stall.began",
                    "stall.ended: recovered",
                    "stall: local_paused",
                    "stall: unknown",
                    "stall goes on: not wrong",
                ];
                for told in &mut told {
                    told.retain(|told| !own.contains(&told.as_str()));
                }
                return told;
            }
            _ => return told,
        };
        told.iter_mut().flatten().filter(|told| *told == one).for_each(|told| other.clone_into(told));
        told
    }

    /// Which host's pauses are told, and of how many faults: the last one may not be over.
    pub(crate) fn pauses(self) -> Option<(&'static str, usize)> {
        match self {
            Self::Paused => Some(("local", 3)),
            Self::Survives("peer_paused") => Some(("remote", 2)),
            _ => None,
        }
    }

    /// What may be said of a silence that goes on when the run ends. Less is known of it than of one that is over: its
    /// reflector has not told of a pause yet, and it may be the end of the flow. Both worlds may know different parts of that.
    pub(crate) fn may_be_said_at_the_end(self, verdict: &str) -> bool {
        verdict == "unknown"
            || match self {
                Self::Survives(right) | Self::Dies(_, right) => verdict == right,
                _ => false,
            }
    }

    /// What a recording tells of each connection.
    pub(crate) fn expected(self, dead_address: bool) -> Vec<Vec<String>> {
        let lost = ["stall.began", "stall goes on: not wrong", "closed: finished"].map(str::to_owned);
        let told: Vec<Vec<String>> = match self {
            Self::Nothing | Self::Paused => vec![vec!["opened".into(), "closed: finished".into()]],
            Self::Survives(verdict) => {
                let one = ["stall.began", "stall.ended: recovered"].map(str::to_owned);
                let one = [&one[..], &[format!("stall: {verdict}")]].concat();
                vec![[vec!["opened".into()], one.clone(), one, lost.to_vec()].concat()]
            }
            Self::Ends(cause, verdict) => {
                let one =
                    vec!["opened".to_owned(), format!("closed: {cause}"), format!("closing: {verdict}")];
                let last = vec!["opened".into(), "closed: finished".into()];
                vec![one.clone(), one.clone(), one, last]
            }
            Self::Dies(cause, verdict) => {
                let one = ["opened", "stall.began", "stall.ended: lost"].map(str::to_owned);
                let end = [format!("closed: {cause}"), format!("closing: {verdict}")];
                let one = [&one[..], &end].concat();
                let last = [&["opened".to_owned()][..], &lost].concat();
                vec![one.clone(), one, last]
            }
            Self::Refused(verdict) => {
                let one = ["opened".to_owned(), "closed: peer_closed".into(), format!("closing: {verdict}")];
                let refused = "refused".to_owned();
                let next = [&[refused.clone()][..], &one].concat();
                vec![one.to_vec(), next.clone(), next, vec![refused]]
            }
        };
        if dead_address {
            let mut told = told;
            told[0].insert(0, "refused".into());
            return told;
        }
        told
    }
}

impl Script {
    /// Its place among the scripts, from which its addresses follow.
    fn number(&self) -> usize {
        SCRIPTS.iter().position(|script| script.name == self.name).expect("one of them") + 1
    }

    pub(crate) fn label(&self, rate: usize) -> String {
        format!("{}-{}", self.name, RATES[rate].0)
    }

    pub(crate) fn client(&self) -> String {
        format!("{}-client", self.name)
    }

    pub(crate) fn server(&self) -> String {
        format!("{}-server", self.name)
    }

    pub(crate) fn client_address(&self, rate: usize) -> String {
        format!("10.90.{}.{}", self.number(), rate + 1)
    }

    fn server_address(&self, rate: usize) -> String {
        format!("10.91.{}.{}", self.number(), rate + 1)
    }

    /// Nobody answers there. It is the first by the order of RFC 6724 too: as far from the source as the other one.
    fn dead(&self, rate: usize) -> String {
        format!("10.91.{}.{}", self.number(), rate + 101)
    }

    /// What the probe is told to measure.
    pub(crate) fn target(&self, rate: usize) -> String {
        if self.dead_address { "two.test:7".to_owned() } else { format!("{}:7", self.server_address(rate)) }
    }

    /// The hosts file, where the target is a name.
    pub(crate) fn hosts(&self, rate: usize) -> Option<String> {
        let (dead, alive) = (self.dead(rate), self.server_address(rate));
        self.dead_address.then(|| format!("{dead} two.test\n{alive} two.test\n"))
    }

    /// The fault as events of the fabric, one for each path where it concerns one.
    pub(crate) fn events(&self, length: Duration) -> Vec<(&'static str, Vec<String>)> {
        let Fault::Event(kind, parameters) = self.fault else { return Vec::new() };
        let filled = |rate: usize| {
            let text = parameters
                .replace("{path}", &self.label(rate))
                .replace("{client}", &self.client())
                .replace("{server}", &self.server())
                .replace("{box}", self.name)
                .replace("{for}", &format!("{}s", length.as_secs()));
            (kind, text.split(' ').map(str::to_owned).collect())
        };
        let events = if parameters.contains("{path}") { RATES.len() } else { 1 };
        (0..events).map(filled).collect()
    }

    fn write(&self, simulated: bool, text: &mut String) -> std::fmt::Result {
        let all = |address: &dyn Fn(usize) -> String| {
            let all: Vec<String> = (0..RATES.len()).map(|rate| format!("\"{}\"", address(rate))).collect();
            all.join(", ")
        };
        let clients = all(&|rate| self.client_address(rate));
        let servers = all(&|rate| self.server_address(rate));
        writeln!(text, "[[host]]\nname = \"{}\"\naddresses = [{clients}]", self.client())?;
        writeln!(text, "[[host]]\nname = \"{}\"\naddresses = [{servers}]", self.server())?;
        if self.dead_address {
            let dead = all(&|rate| self.dead(rate));
            writeln!(text, "[[host]]\nname = \"{}-dead\"\naddresses = [{dead}]", self.name)?;
        }
        let mut via = String::new();
        if let Some(middlebox) = self.middlebox {
            writeln!(text, "[[middlebox]]\nname = \"{}\"\n{middlebox}", self.name)?;
            via = format!("via = [\"{}\"]\n", self.name);
        }
        for rate in 0..RATES.len() {
            let (label, from) = (self.label(rate), self.client_address(rate));
            let path = |label: &str, to: &str, loss: &str| {
                format!(
                    "[[path]]\nlabel = \"{label}\"\nfrom = \"{from}\"\nto = \"{to}\"\n{via}\
                     both = {{ delay = \"{DELAY}\"{loss} }}\n"
                )
            };
            text.push_str(&path(&label, &self.server_address(rate), ""));
            if self.dead_address {
                text.push_str(&path(&format!("{label}-dead"), &self.dead(rate), ", loss = 1"));
            }
        }
        if simulated { self.write_simulated(text) } else { Ok(()) }
    }

    fn write_simulated(&self, text: &mut String) -> std::fmt::Result {
        for (rate, (_, every)) in RATES.iter().enumerate() {
            let (label, user_timeout) = (self.label(rate), self.user_timeout);
            writeln!(text, "[[simulate.probe]]\npath = \"{label}\"\nevery = \"{every}\"")?;
            writeln!(text, "user-timeout = \"{user_timeout}\"")?;
            if self.dead_address {
                let (dead, alive) = (self.dead(rate), self.server_address(rate));
                writeln!(text, "addresses = [\"{dead}\", \"{alive}\"]")?;
            }
        }
        for (nth, at) in AT_S.iter().enumerate() {
            let length = if nth + 1 == AT_S.len() && self.story.has_a_silence() { LAST } else { FAULT };
            for (kind, parameters) in self.events(length) {
                writeln!(text, "[[event]]\nat = \"{at}s\"\nkind = \"{kind}\"")?;
                for (key, value) in parameters.iter().filter_map(|pair| pair.split_once('=')) {
                    let bare = matches!(value, "true" | "false");
                    let value = if bare { value.to_owned() } else { format!("\"{value}\"") };
                    writeln!(text, "{key} = {value}")?;
                }
            }
            if matches!(self.fault, Fault::Restart) {
                let (host, length) = (self.server(), length.as_secs());
                writeln!(
                    text,
                    "[[simulate.restart]]\nhost = \"{host}\"\nat = \"{at}s\"\nfor = \"{length}s\""
                )?;
            }
        }
        Ok(())
    }
}

/// All scripts in one scenario, side by side. `simulated`: with its probes and the times of its faults.
pub(crate) fn scenario(simulated: bool) -> String {
    let mut text = "format = 1\nname = \"two-worlds\"\n".to_owned();
    for script in &SCRIPTS {
        script.write(simulated, &mut text).expect("text");
    }
    if simulated {
        let _ = write!(text, "[simulate]\nfor = \"{END_S}s\"\n");
    }
    text
}
