//! Whose turn it is: where several settings are asked, each once in a round, in an order of chance, so that what drifts hits all of
//! them alike. Sizes of packets have a session each, because the login agrees on them, and log in anew every few rounds
//! ([`Logins`]); sizes of fetches share one.

use crate::counts::{Counts, Tally};
use crate::looks::Looks;
use crate::protocol::{Facts, Protocol};
use crate::query::Asker;
use crate::session::Login;
use crate::{Config, Error, tds};
use fathom_core::interleave::Interleave;
use fathom_core::query::{Asked, Logins, Query, Setting};
use serde_json::Value;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Logs in for queries of this configuration.
type Begin = fn(&Login, &Config) -> Result<Box<dyn Protocol>, Error>;

/// The sessions, and what they are asked with.
pub(crate) struct Turns<'a> {
    places: Vec<Place<'a>>,
    configs: &'a [Config],
    order: Interleave,
    begin: Begin,
    /// `None`: the settings share a session.
    logins: Option<Logins>,
    login: u64,
    /// Who reads what the server counts; `None`: it does not, or nobody can any more.
    counts: Option<Counts>,
    /// Why not, where that is still to be said.
    uncounted: Option<Error>,
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

impl<'a> Turns<'a> {
    /// One session for all, or one for each.
    pub(crate) fn new(
        askers: Vec<Asker<'a>>,
        configs: &'a [Config],
        each: &[Facts],
        order: Interleave,
        begin: Begin,
    ) -> Self {
        let logins = (askers.len() > 1).then(|| Logins::new(configs.len(), configs[0].count));
        let place = |(asker, facts): (Asker<'a>, &Facts)| Place {
            asker,
            past: Facts::default(),
            granted: granted(facts),
            login: 0,
            is_asked: false,
            tally: Tally::default(),
        };
        let places = askers.into_iter().zip(each).map(place).collect();
        Self { places, configs, order, begin, logins, login: 0, counts: None, uncounted: None }
    }

    /// From now on what the server counts of these sessions is read, where it counts anything.
    pub(crate) fn count(&mut self) {
        let Some(asker) = self.places.first().map(|place| &place.asker) else { return };
        if asker.watch.as_ref().is_none_or(|watch| watch.waits.is_none()) {
            return;
        }
        match Counts::begin(asker.login, &self.configs[0], self.begin) {
            Ok(counts) => self.counts = Some(counts),
            Err(error) => self.uncounted = Some(error),
        }
        for at in 0..self.places.len() {
            self.tally(at, |place, counts| match &place.asker.watch {
                Some(watch) => place.tally.begin(counts, watch),
                None => Ok(()),
            });
        }
    }

    /// Reads; where that fails nothing more is.
    fn tally(&mut self, at: usize, read: impl FnOnce(&mut Place<'a>, &mut Counts) -> Result<(), Error>) {
        if let Some(counts) = &mut self.counts
            && let Err(error) = read(&mut self.places[at], counts)
        {
            (self.counts, self.uncounted) = (None, Some(error));
        }
    }

    /// The server was not waited for: nor is what it counts.
    pub(crate) fn give_up_counting(&mut self) {
        if self.counts.take().is_some() {
            self.uncounted = Some(Error::run("the server had not answered"));
        }
    }

    /// Why what the server counts is not known, told once.
    pub(crate) fn uncounted(&mut self) -> Option<Error> {
        self.uncounted.take()
    }

    /// The queries are over: what the server counted of all of them, and of each setting that had sessions of its own. `early`: for
    /// whatever reason before their time.
    pub(crate) fn counted(&mut self, asked: &mut Asked, early: bool) {
        if let Some(counts) = self.counts.as_mut().filter(|_| early) {
            counts.last_try();
        }
        for at in 0..self.places.len() {
            self.tally(at, |place, counts| place.tally.end(counts));
        }
        if self.counts.is_none() {
            return;
        }
        let each: Vec<_> = self.places.iter().map(|place| place.tally.sum().cloned()).collect();
        asked.counted = each.iter().flatten().cloned().reduce(|sum, one| sum.and(&one));
        if self.logins.is_some() {
            for (setting, counted) in asked.settings.iter_mut().zip(each) {
                setting.counted = counted;
            }
        }
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
        let place = &mut self.places[setting];
        let asker = &mut place.asker;
        let at_once = asker.login.impatient();
        let mut session = (self.begin)(&at_once, &self.configs[setting])?;
        place.granted = granted(&session.facts());
        if let Some(looks) = &asker.looks {
            let watch = Arc::new(session.watch(&at_once)?);
            looks.watch(&watch);
            asker.watch = Some(watch);
        }
        // Nobody looks at the one before any more: it may end.
        let mut before = std::mem::replace(&mut asker.session, session);
        place.past = with_past(before.facts(), &place.past);
        (place.login, place.is_asked) = (self.login, false);
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
        let (place, config) = (&mut self.places[session], &self.configs[setting]);
        let is_first_of_login = !std::mem::replace(&mut place.is_asked, true);
        let turn = Turn {
            setting: (settings > 1).then_some(setting as u64),
            fetch_size: config.fetch_size.map(u64::from),
            packet_size: place.granted,
            login: self.logins.as_ref().map(|_| place.login),
            // Settings that share a session have a first query each.
            is_first: is_first_of_login || number < settings,
        };
        place.asker.config = config;
        (turn, &mut place.asker)
    }

    /// Nobody looks at the server any more.
    pub(crate) fn end_looks(&mut self) {
        let taken: Vec<Rc<Looks>> =
            self.places.iter_mut().filter_map(|place| place.asker.looks.take()).collect();
        if let Some(looks) = taken.first() {
            looks.end();
        }
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
