//! Reading `queries-*.parquet`: what a recording of `fathom sql` came to, and whether its rows keep the laws of the format.

pub(crate) mod files;
pub(crate) mod laws;
pub(crate) mod mend;

use crate::damage::Damage;
use crate::{Error, Recording};
use fathom_core::event::EventKind;
use fathom_core::query::{Asked, Connection, Counted, MOST_CONNECTIONS, Outcome, Setting};
use fathom_core::text::count;
use files::Files;
use std::net::SocketAddr;

impl Recording {
    /// What its queries came to, and what of them cannot be read; `None`: it is a recording of something else.
    pub fn asked(&self) -> Result<Option<(Outcome, Vec<Damage>)>, Error> {
        let sql = &self.manifest().probe["sql"];
        if !sql.is_object() {
            return Ok(None);
        }
        let mut asked = Asked {
            target: self.manifest().reflector.address.clone(),
            // A killed run tells no end.
            encrypted: sql["encrypted"].as_bool(),
            fetch_size: sql["fetch_size"].as_u64().map(|rows| rows as u32),
            settings: sql["settings"].as_array().into_iter().flatten().filter_map(Setting::of).collect(),
            connections: match self.connections() {
                0 | 1 => vec![],
                several => vec![Connection::default(); several as usize],
            },
            is_here: self.is_of_this_host(),
            recording: Some(self.dir().display().to_string()),
            ..Asked::default()
        };
        let (mut told, mut lost) = (None, 0_u64);
        for event in self.events()?.flatten().filter_map(|entry| entry.known().cloned()) {
            match event.kind {
                EventKind::Note { text } => asked.notes.push(text),
                EventKind::SqlEnded { result } => {
                    asked.server_version = result["server_version"].as_str().map(str::to_owned);
                    asked.encrypted = result["encrypted"].as_bool().or(asked.encrypted);
                    asked.tds = result["tds"].clone();
                    for (at, setting) in asked.settings.iter_mut().enumerate() {
                        setting.tds = result["settings"][at]["tds"].clone();
                        setting.counted = Counted::of(&result["settings"][at]["server_counted"]);
                    }
                    for (at, connection) in asked.connections.iter_mut().enumerate() {
                        let told = &result["connections"][at];
                        connection.counted = Counted::of(&told["server_counted"]);
                        connection.unrecorded = told["unrecorded"].as_u64();
                        connection.lost_from = told["lost_from"].as_u64();
                    }
                    asked.counted = Counted::of(&result["server_counted"]);
                    asked.unanswered_beside = result["unanswered_beside"].as_u64();
                    asked.unrecorded = result["unrecorded"].as_u64();
                    asked.is_pooled = result["pooled"].as_bool() == Some(true);
                    asked.kept_ns = result["kept_from_running_ns"].as_u64();
                    told =
                        result["queries"].as_u64().map(|n| n.saturating_sub(asked.unrecorded.unwrap_or(0)));
                }
                EventKind::QueriesLost { queries } => lost = queries.saturating_add(lost),
                _ => {}
            }
        }
        if told.is_none() && lost > 0 {
            asked.unrecorded = Some(lost);
        }
        let mut outcome = Outcome::new(asked);
        // Between rows, and not told as lost: a kill takes those at the end.
        let (mut next, mut absent) = (0, 0);
        let files = Files::of(self)?;
        let mut damage = files.each_batch(|ordinal, batch| {
            for row in 0..batch.num_rows() {
                let query = files::query(batch, row)
                    .ok_or_else(|| files.damage(ordinal, "it has impossible numbers".to_owned()))?;
                absent += query.query.saturating_sub(next);
                next = query.query.saturating_add(1).max(next);
                outcome.add(&query);
            }
            Ok(())
        });
        let end = files.last().unwrap_or(0);
        match told {
            _ if !damage.is_empty() => {}
            Some(told) if told > outcome.queries() => {
                let missing = count(told - outcome.queries(), "row");
                damage.push(files.damage(end, format!("{missing} that sql.ended counts cannot be found")));
            }
            None if absent > lost => {
                let missing = count(absent - lost, "row");
                damage.push(files.damage(
                    end,
                    format!("{missing} between others cannot be found, and no event tells why"),
                ));
            }
            _ => {}
        }
        Ok(Some((outcome, damage)))
    }

    /// Whether the server's address was a loopback address of the host that asked.
    fn is_of_this_host(&self) -> bool {
        let resolved = self.manifest().reflector.resolved.as_deref();
        resolved
            .and_then(|resolved| resolved.parse::<SocketAddr>().ok())
            .is_some_and(|remote| remote.ip().to_canonical().is_loopback())
    }

    /// How many connections asked side by side; recordings of earlier versions have one.
    pub(crate) fn connections(&self) -> u64 {
        self.manifest().probe["sql"]["connections"].as_u64().unwrap_or(1).min(MOST_CONNECTIONS)
    }
}
