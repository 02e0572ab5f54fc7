//! Whose turn it is: where several settings are asked, each once in a round, in an order of chance, so that what drifts hits all of
//! them alike. Sizes of packets have a session each, because the login agrees on them, and log in anew every few rounds
//! ([`Logins`]); sizes of fetches share one.

use crate::connections::Begin;
use crate::counts::{Counting, Counts, Tally};
use crate::login::Login;
use crate::protocol::{Facts, Protocol};
use crate::query::Asker;
use crate::{Config, Error, tds};
use fathom_core::interleave::Interleave;
use fathom_core::query::{Asked, Counted, Logins, Query, Setting};
use fathom_os::pause::RunQueue;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The sessions, and what they are asked with.
pub(crate) struct Turns<'a> {
    places: Vec<Place<'a>>,
    configs: &'a [Config],
    order: Interleave,
    begin: Begin,
    /// `None`: the settings share a session.
    logins: Option<Logins>,
    login: u64,
    /// The place of the session that was asked last.
    asked: usize,
    counting: &'a Counting,
    /// It is one of several connections: a lost session may be replaced.
    is_one_of_several: bool,
}

/// A session, and those that were in its place before.
struct Place<'a> {
    asker: Asker<'a>,
    /// Of those before.
    past: Facts,
    granted: Option<u64>,
    login: u64,
    is_asked: bool,
    tally: Tally,
}

/// What a query is asked with.
pub(crate) struct Turn {
    setting: Option<u64>,
    fetch_size: Option<u64>,
    packet_size: Option<u64>,
    login: Option<u64>,
    is_first: bool,
}

impl Turn {
    /// The row of its query.
    pub(crate) fn of(&self, query: Query) -> Query {
        Query {
            setting: self.setting,
            fetch_size: self.fetch_size,
            packet_size: self.packet_size,
            login: self.login,
            is_first: self.is_first,
            ..query
        }
    }
}

/// The order of so many settings: of chance, and so another one in each run, because where a place in it is worth something the
/// same settings would have it in all of them.
pub(crate) fn order(settings: usize, seed: u64) -> Interleave {
    let ordinals: Vec<u32> = (0..settings as u32).collect();
    Interleave::new(&ordinals, seed)
}

/// The sessions: one for all settings, or one for each, because the size of packets is agreed on in the login. Who logs in first is
/// of chance, too.
pub(crate) fn sessions(
    login: &Login,
    configs: &[Config],
    order: &mut Interleave,
    begin: Begin,
) -> Result<Vec<Box<dyn Protocol>>, Error> {
    if configs[0].packet_size.is_none() {
        return Ok(vec![begin(login, &configs[0])?]);
    }
    let mut sessions = BTreeMap::new();
    for _ in configs {
        let at = order.current().unwrap_or(0) as usize;
        sessions.insert(at, begin(login, &configs[at])?);
        order.advance();
    }
    Ok(sessions.into_values().collect())
}

/// What was granted a session.
fn granted(facts: &Facts) -> Option<u64> {
    facts.packets["granted"].as_u64()
}

/// The settings as they are recorded; none where there is one only.
pub(crate) fn settings(config: &Config, configs: &[Config], each: &[Facts]) -> Vec<Setting> {
    let one = |(at, one): (usize, &Config)| {
        let facts = &each[at.min(each.len() - 1)];
        Setting {
            fetch_size: one.fetch_size,
            packet_size: facts.packets["asked"].as_u64().zip(granted(facts)),
            tds: facts.packets.clone(),
            counted: None,
        }
    };
    if config.sweep.is_empty() { vec![] } else { configs.iter().enumerate().map(one).collect() }
}

/// What is to be said of the sessions, each once.
pub(crate) fn notes(each: &[Facts]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for facts in each {
        add_notes(&mut notes, &facts.notes);
    }
    notes
}

fn add_notes(notes: &mut Vec<String>, others: &[String]) {
    for text in others {
        if !notes.contains(text) {
            notes.push(text.clone());
        }
    }
}

/// The packets that were seen in the end.
pub(crate) fn seen(asked: &mut Asked, each: &[Facts]) {
    if asked.settings.is_empty() {
        asked.tds = each[0].packets.clone();
    }
    for (at, setting) in asked.settings.iter_mut().enumerate() {
        setting.tds = each[at.min(each.len() - 1)].packets.clone();
    }
}

/// What the server counted of the sessions of a setting, where it was read, and how many were lost with it.
pub(crate) type Tallied = (Option<Counted>, u64);

/// What the server counted of each connection: of each of its settings that had sessions of its own, or else of its session.
pub(crate) fn count_in(asked: &mut Asked, counted: &[Vec<Tallied>]) {
    let sum = |of: &mut dyn Iterator<Item = &Tallied>| {
        let (counts, lost): (Vec<_>, Vec<u64>) = of.cloned().unzip();
        let sum = counts.into_iter().flatten().reduce(|sum, one| sum.and(&one))?;
        Some(Counted { lost_sessions: lost.iter().sum(), ..sum })
    };
    asked.counted = sum(&mut counted.iter().flatten());
    for (connection, each) in asked.connections.iter_mut().zip(counted) {
        connection.counted = sum(&mut each.iter());
    }
    if let Some(each) = counted.first().filter(|each| each.len() > 1) {
        for (setting, tallied) in asked.settings.iter_mut().zip(each) {
            setting.counted = sum(&mut std::iter::once(tallied));
        }
    }
}

/// What is known of several sessions of one setting, of which `facts` is the latest.
fn with_past(mut facts: Facts, past: &Facts) -> Facts {
    let mut notes = past.notes.clone();
    add_notes(&mut notes, &facts.notes);
    facts.notes = notes;
    if let (Some(packets), Some(before)) = (facts.packets.as_object_mut(), past.packets.as_object()) {
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        for name in ["packets", "bytes", "too_long", "not_full"] {
            packets[name] = (number(&packets[name]) + number(&before[name])).into();
        }
        packets["longest"] = number(&packets["longest"]).max(number(&before["longest"])).into();
    }
    facts
}

/// Of several connections what is known of them together, which are of one setting; of one all that is known of each setting.
pub(crate) fn together(each: Vec<Facts>, connections: u64) -> Vec<Facts> {
    if connections == 1 {
        return each;
    }
    each.into_iter().reduce(|before, facts| with_past(facts, &before)).into_iter().collect()
}

impl<'a> Turns<'a> {
    /// One session for all, or one for each.
    pub(crate) fn new(
        askers: Vec<Asker<'a>>,
        configs: &'a [Config],
        each: &[&Facts],
        order: Interleave,
        begin: Begin,
        counting: &'a Counting,
    ) -> Self {
        let logins = (askers.len() > 1).then(|| Logins::new(configs.len(), configs[0].count));
        let place = |(asker, facts): (Asker<'a>, &&Facts)| Place {
            asker,
            past: Facts::default(),
            granted: granted(facts),
            login: 0,
            is_asked: false,
            tally: Tally::default(),
        };
        let places = askers.into_iter().zip(each).map(place).collect();
        let is_one_of_several = configs[0].connections > 1;
        Self { places, configs, order, begin, logins, login: 0, asked: 0, counting, is_one_of_several }
    }

    /// From now on what the server counts of these sessions is read.
    pub(crate) fn count(&mut self) {
        for at in 0..self.places.len() {
            self.tally(at, |place, counts| match &place.asker.watch {
                Some(watch) => place.tally.begin(counts, watch),
                None => Ok(()),
            });
        }
    }

    fn tally(&mut self, at: usize, read: impl FnOnce(&mut Place<'a>, &mut Counts) -> Result<(), Error>) {
        let place = &mut self.places[at];
        self.counting.tally(|counts| read(place, counts));
    }

    /// The queries are over: what the server counted of each setting that had sessions of its own, or else of the session.
    pub(crate) fn counted(&mut self) -> Vec<Tallied> {
        for at in 0..self.places.len() {
            self.tally(at, |place, counts| place.tally.end(counts));
        }
        self.places.iter().map(|place| place.tally.sum()).collect()
    }

    /// How many settings there are.
    pub(crate) fn settings(&self) -> u64 {
        self.configs.len() as u64
    }

    /// Before the query of this number is due: logs in anew for it, where it is time to.
    pub(crate) fn log_in(&mut self, number: u64) -> Result<(), Error> {
        let Some(logins) = &mut self.logins else { return Ok(()) };
        self.login = logins.of(number / self.configs.len() as u64);
        let setting = self.order.current().unwrap_or(0) as usize;
        if self.places[setting].login == self.login {
            return Ok(());
        }
        self.tally(setting, |place, counts| place.tally.end(counts));
        self.replace(setting, self.login)
    }

    /// The session that was asked last is lost.
    pub(crate) fn lost(&mut self) {
        self.places[self.asked].tally.lost();
    }

    /// Logs in anew for the session that was lost, which is the only one.
    pub(crate) fn log_in_again(&mut self) -> Result<(), Error> {
        self.replace(0, self.places[0].login + 1)
    }

    /// A new session in the place of another.
    fn replace(&mut self, setting: usize, login: u64) -> Result<(), Error> {
        let place = &mut self.places[setting];
        let asker = &mut place.asker;
        let at_once = asker.login.impatient();
        let mut session = (self.begin)(&at_once, &self.configs[setting])?;
        place.granted = granted(&session.facts());
        // What the server counts of it is asked for though nobody looks at it any more.
        if asker.watch.is_some() {
            let watch = Arc::new(session.watch(&at_once)?);
            if let Some(looks) = &asker.looks {
                looks.watch(&watch);
            }
            asker.watch = Some(watch);
        }
        // Nobody looks at the one before any more: it may end.
        let mut before = std::mem::replace(&mut asker.session, session);
        asker.seam = None;
        place.past = with_past(before.facts(), &place.past);
        (place.login, place.is_asked) = (login, false);
        if let Some(watch) = place.asker.watch.clone() {
            self.tally(setting, |place, counts| place.tally.begin(counts, &watch));
        }
        Ok(())
    }

    /// Who asks the query of this number, and with what; [`Turns::log_in`] came before.
    pub(crate) fn next(&mut self, number: u64) -> (Turn, &mut Asker<'a>) {
        let settings = self.settings();
        let setting = self.order.current().unwrap_or(0) as usize;
        self.order.advance();
        let session = setting.min(self.places.len() - 1);
        self.asked = session;
        let (place, config) = (&mut self.places[session], &self.configs[setting]);
        let is_first_of_login = !std::mem::replace(&mut place.is_asked, true);
        let turn = Turn {
            setting: (settings > 1).then_some(setting as u64),
            fetch_size: config.fetch_size.map(u64::from),
            packet_size: place.granted,
            login: (self.is_one_of_several || self.logins.is_some()).then_some(place.login),
            // Settings that share a session have a first query each.
            is_first: is_first_of_login || number < settings,
        };
        place.asker.config = config;
        (turn, &mut place.asker)
    }

    /// It is asked from here on by this thread, of which the scheduler is asked how late it runs.
    pub(crate) fn on_this_thread(&mut self) {
        for place in &mut self.places {
            (place.asker.run_queue, place.asker.seam) = (RunQueue::of_this_thread(), None);
        }
    }

    /// Nobody looks at these sessions any more.
    pub(crate) fn end_looks(&mut self) {
        self.places.iter_mut().for_each(|place| place.asker.looks = None);
    }

    /// What is known of each setting's sessions.
    pub(crate) fn facts(&mut self) -> Vec<Facts> {
        let of = |place: &mut Place<'_>| {
            let mut facts = with_past(place.asker.session.facts(), &place.past);
            facts.notes.extend(tds::amiss(&facts.packets));
            facts
        };
        self.places.iter_mut().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;
    use crate::beside::Beside;
    use crate::channel::Channel;
    use crate::error::Refusal;
    use crate::lock::lock;
    use crate::protocol::{Shown, Step, Waits, Watch};
    use crate::tests::{config_of, serve};
    use crate::under_way::Habits;
    use std::collections::BTreeSet;
    use std::io;
    use std::net::TcpListener;
    use std::sync::Mutex;

    /// The sessions that a server has, by their numbers; the last one that it gave.
    static OPEN: Mutex<(BTreeSet<u64>, u64)> = Mutex::new((BTreeSet::new(), 0));

    /// One of them, on a connection to nobody. Nothing is asked of it but what the server counts of another, which it shows of those that
    /// are open.
    struct Numbered(u64, Channel);

    impl Numbered {
        fn begin(login: &Login, _: &Config) -> Result<Box<dyn Protocol>, Error> {
            let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
            let channel = Channel::connect(nobody.local_addr().unwrap(), &login.limit());
            let channel = channel.map_err(|e| Error::run(e.to_string()))?;
            let mut open = lock(&OPEN);
            open.1 += 1;
            let number = open.1;
            open.0.insert(number);
            Ok(Box::new(Self(number, channel)))
        }
    }

    impl Drop for Numbered {
        fn drop(&mut self) {
            lock(&OPEN).0.remove(&self.0);
        }
    }

    #[expect(clippy::needless_pass_by_value, clippy::unnecessary_wraps, reason = "the type of `Waits::read`")]
    fn shown(answer: Vec<Option<String>>) -> Result<Shown, Error> {
        let is_shown = !answer.is_empty();
        Ok(is_shown.then(|| Counted {
            wait: "ASYNC_NETWORK_IO".to_owned(),
            waits: 1,
            ns: 1,
            lost_sessions: 0,
        }))
    }

    impl Protocol for Numbered {
        fn ask(&mut self, sql: &str, _: &Login) -> Result<Vec<Option<String>>, Error> {
            let is_open = sql.parse().is_ok_and(|number| lock(&OPEN).0.contains(&number));
            Ok(if is_open { vec![None] } else { vec![] })
        }

        fn watch(&mut self, _: &Login) -> Result<Watch, Error> {
            let waits = Waits { sql: self.0.to_string(), read: shown, unseen: "it is not shown" };
            Ok(Watch {
                sql: String::new(),
                of: None,
                is_anothers: false,
                read: |_| Err(Error::run("")),
                unlisted: String::new(),
                gone: String::new(),
                grant: None,
                waits: Some(waits),
            })
        }

        fn facts(&mut self) -> Facts {
            Facts::default()
        }

        fn channel(&mut self) -> &mut Channel {
            &mut self.1
        }

        fn request(&mut self, _: &str, _: &Config) -> io::Result<Vec<u8>> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn step(&mut self, _: &Config) -> io::Result<Option<Step>> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn cancel(&mut self, _: &Login) -> io::Result<Option<Vec<u8>>> {
            Ok(None)
        }

        fn after(&mut self, _: &Config) -> Option<Vec<u8>> {
            None
        }

        fn is_ready(&self) -> bool {
            true
        }

        fn rows(&self, _: u64, _: u64) -> String {
            String::new()
        }

        fn remedy(&self, _: &Refusal, _: &str, _: &Config) -> &'static str {
            ""
        }
    }

    /// The session that looks was lost in the middle of a sweep: from the next login on the counts of sessions were read that had
    /// ended, and the run's were lost with them.
    #[test]
    fn counting_continues_over_relogins_without_observer() {
        let (login, server) = serve("", drop);
        server.join().unwrap();
        let config = |packet_size| Config {
            packet_size: Some(packet_size),
            count: Some(9),
            ..config_of(Target::Postgres(login.server.clone()))
        };
        let configs = [config(4_096), config(8_192)];
        let mut sessions: Vec<_> =
            configs.iter().map(|config| Numbered::begin(&login, config).unwrap()).collect();
        let watches: Vec<_> =
            sessions.iter_mut().map(|session| Arc::new(session.watch(&login).unwrap())).collect();
        let counting = Counting::begin(watches.first(), &login, &configs[0], Numbered::begin);
        let facts = Facts::default();
        let askers =
            sessions.into_iter().zip(watches).zip(&configs).map(|((session, watch), config)| Asker {
                session,
                login: &login,
                config,
                sql: String::new(),
                beside: Beside::nobody(),
                looks: None,
                watch: Some(watch),
                stop: login.stop.clone(),
                habits: Habits::default(),
                run_queue: RunQueue::of_this_thread(),
                running: None,
                seam: None,
                before: crate::looks::after::Before::default(),
            });
        let (each, order) = ([&facts, &facts], order(2, 1));
        let mut turns = Turns::new(askers.collect(), &configs, &each, order, Numbered::begin, &counting);
        turns.count();
        for number in 0..18 {
            turns.log_in(number).unwrap();
            turns.next(number);
            assert!(counting.is_whole(), "{:?}", counting.uncounted());
        }
        assert!(turns.login > 1, "it has logged in anew");
        let counted = turns.counted();
        assert!(counted.iter().all(|(counted, lost)| counted.is_some() && *lost == 0), "{counted:?}");
    }
}
