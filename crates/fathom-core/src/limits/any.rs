//! A recorded search for whichever limit.

use super::ceiling::{Asked, Ceiling, CeilingRecorded};
use super::outcome::Outcome;
use super::recorded::Recorded;
use super::settings::Settings;
use crate::event::{Event, Limit};
use serde_json::Value;
use std::net::SocketAddr;

/// Takes the events of a recording one after the other, whatever was searched for.
#[derive(Debug, Clone, Default)]
pub struct AnyRecorded {
    /// What a search for the idle limit or the age limit told.
    pub lengths: Recorded,
    /// What one for the rate ceiling told.
    pub rate: CeilingRecorded,
}

/// What came of a search.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// For the idle limit, or the age limit.
    Lengths(Box<Outcome>),
    /// For the rate ceiling.
    Rate(Box<Ceiling>),
}

impl AnyRecorded {
    /// Takes note of an event.
    pub fn event(&mut self, event: &Event) {
        self.rate.event(event);
        if self.rate.asked().is_none() {
            self.lengths.event(event);
        }
    }

    /// What it amounts to. `None`: no search is recorded here, or nothing of one.
    pub fn outcome(&self) -> Option<Found> {
        let lengths = || self.lengths.outcome().map(|outcome| Found::Lengths(Box::new(outcome)));
        self.rate.outcome().map(|ceiling| Found::Rate(Box::new(ceiling))).or_else(lengths)
    }

    /// Why a search with these settings cannot go on from here; `None`: it can. `of` is what this one was of; `rate`: the rate
    /// ceiling is searched for, and no limit of lengths.
    pub fn why_not(
        &self,
        of: &str,
        limit: Limit,
        rate: Option<Asked>,
        settings: &Settings,
    ) -> Option<String> {
        match (self.rate.asked(), rate) {
            (Some(asked), None) => {
                let up_to = asked.up_to_per_s;
                Some(format!("it was a search for the rate ceiling; give --rate-ceiling {up_to} too"))
            }
            (None, Some(_)) if self.lengths.known() > 0 => {
                Some("it was a search for another limit; leave out --rate-ceiling".to_owned())
            }
            (_, Some(asked)) => self.rate.why_not(of, &settings.target, asked),
            (None, None) => self.lengths.why_not(of, limit, settings),
        }
    }
}

impl Found {
    /// For people.
    pub fn text(&self, target: &str) -> String {
        match self {
            Self::Lengths(outcome) => outcome.text(target),
            Self::Rate(ceiling) => ceiling.text(target),
        }
    }

    /// One object, as docs/limits.md tells.
    pub fn json(&self, target: &str, remote: Option<SocketAddr>) -> Value {
        match self {
            Self::Lengths(outcome) => outcome.json(target, remote),
            Self::Rate(ceiling) => ceiling.json(target, remote),
        }
    }
}
