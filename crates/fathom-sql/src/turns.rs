//! Whose turn it is: where several settings are asked, each once in a round, in an order of chance, so that what drifts hits all of
//! them alike. Sizes of packets have a session each, because the login agrees on them; sizes of fetches share one.

use crate::Config;
use crate::looks::Looks;
use crate::protocol::Facts;
use crate::query::Asker;
use fathom_core::interleave::Interleave;
use fathom_core::query::{Asked, Query, Setting};

/// Of the order; the same in every run.
const SEED: u64 = 1;

/// The sessions, and what they are asked with.
pub(crate) struct Turns<'a> {
    askers: Vec<Asker<'a>>,
    configs: &'a [Config],
    granted: Vec<Option<u64>>,
    order: Interleave,
}

/// What a query is asked with.
pub(crate) struct Turn {
    setting: Option<u64>,
    fetch_size: Option<u64>,
    packet_size: Option<u64>,
    is_first: bool,
}

impl Turn {
    /// The row of its query.
    pub(crate) fn of(&self, query: Query) -> Query {
        Query {
            setting: self.setting,
            fetch_size: self.fetch_size,
            packet_size: self.packet_size,
            is_first: self.is_first,
            ..query
        }
    }
}

/// Of each session what was granted it.
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
        }
    };
    if config.sweep.is_empty() { vec![] } else { configs.iter().enumerate().map(one).collect() }
}

/// What is to be said of the sessions, each once.
pub(crate) fn notes(each: &[Facts]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for text in each.iter().flat_map(|facts| &facts.notes) {
        if !notes.contains(text) {
            notes.push(text.clone());
        }
    }
    notes
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

impl<'a> Turns<'a> {
    /// One session for all, or one for each.
    pub(crate) fn new(askers: Vec<Asker<'a>>, configs: &'a [Config], each: &[Facts]) -> Self {
        let ordinals: Vec<u32> = (0..configs.len() as u32).collect();
        let granted = each.iter().map(granted).collect();
        Self { askers, configs, granted, order: Interleave::new(&ordinals, SEED) }
    }

    /// How many there are.
    pub(crate) fn settings(&self) -> u64 {
        self.configs.len() as u64
    }

    /// Who asks the query of this number, and with what.
    pub(crate) fn next(&mut self, number: u64) -> (Turn, &mut Asker<'a>) {
        let setting = self.order.current().unwrap_or(0) as usize;
        self.order.advance();
        let session = setting.min(self.askers.len() - 1);
        let config = &self.configs[setting];
        let turn = Turn {
            setting: (self.configs.len() > 1).then_some(setting as u64),
            fetch_size: config.fetch_size.map(u64::from),
            packet_size: self.granted[session],
            is_first: number < self.settings(),
        };
        let asker = &mut self.askers[session];
        asker.config = config;
        (turn, asker)
    }

    /// Nobody looks at the server any more.
    pub(crate) fn end_looks(&mut self) {
        self.askers.iter_mut().filter_map(|asker| asker.looks.take()).for_each(Looks::end);
    }

    /// What is known of each session.
    pub(crate) fn facts(&mut self) -> Vec<Facts> {
        self.askers.iter_mut().map(|asker| asker.session.facts()).collect()
    }
}
