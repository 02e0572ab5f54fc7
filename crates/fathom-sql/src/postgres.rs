//! A session of `PostgreSQL`, as a run needs it.

use crate::cancel::cancel;
use crate::channel::Channel;
use crate::error::Refusal;
use crate::login::Login;
use crate::protocol::{Facts, Lasted, Protocol, Seen, Step, Watch};
use crate::reader::Item;
use crate::session::{Ends, Session};
use crate::statement::{Dialect, has_parameters, is_several};
use crate::{Config, Error, ending, remedy};
use bytes::BytesMut;
use fathom_core::query::ServerState;
use postgres_protocol::IsNull;
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;
use serde_json::Value;
use std::io;

/// For how long a backend had been in its state, which it enters anew with every request, when the question came: µs by the server's
/// clock. Less than nothing where it has entered it since.
/// Every name, operators too, is that of `pg_catalog`: by the user's `search_path` it might be somebody else's. `EXTRACT` is syntax, which
/// finds its own.
const LASTED_US: &str = "(EXTRACT(EPOCH FROM (pg_catalog.statement_timestamp() OPERATOR(pg_catalog.-) state_change)) \
                         OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8";

impl Protocol for Session {
    fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }

    fn request(&mut self, sql: &str, config: &Config) -> io::Result<Vec<u8>> {
        self.ends = Ends::default();
        let mut out = BytesMut::new();
        if config.simple {
            frontend::query(sql, &mut out)?;
            return Ok(out.to_vec());
        }
        frontend::parse("", sql, [], &mut out)?;
        let none: [i16; 0] = [];
        frontend::bind("", "", none, [(); 0], |(), _| Ok(IsNull::Yes), none, &mut out)
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        execute(config, &mut out)?;
        Ok(out.to_vec())
    }

    fn step(&mut self, config: &Config) -> io::Result<Option<Step>> {
        if std::mem::take(&mut self.is_over) {
            return Ok(Some(Step::Over));
        }
        loop {
            let Some(item) = self.reader.next(&mut self.channel.inbox)? else { return Ok(None) };
            let message = match item {
                Item::Row if config.think.is_zero() => {
                    let rows = 1 + self.reader.rows(&mut self.channel.inbox);
                    self.ends.rows(rows);
                    return Ok(Some(Step::Rows(rows)));
                }
                Item::Row => {
                    self.ends.rows(1);
                    return Ok(Some(Step::Rows(1)));
                }
                Item::Copied => {
                    self.copied += 1;
                    return Ok(Some(Step::Rows(1)));
                }
                Item::Message(message) => message,
            };
            return Ok(Some(match message {
                Message::ErrorResponse(body) => {
                    self.copied = 0;
                    self.ends.ended();
                    Step::Refused { refusal: Refusal::of(&body), is_over: config.fetch_size.is_some() }
                }
                Message::RowDescription(_) => {
                    self.ends.described();
                    continue;
                }
                Message::PortalSuspended => {
                    self.ends.suspended(config.fetch_size)?;
                    let mut out = BytesMut::new();
                    execute(config, &mut out)?;
                    Step::Turn(out.to_vec())
                }
                Message::CommandComplete(body) if self.copied > 0 => {
                    self.ends.ended();
                    let messages = std::mem::take(&mut self.copied);
                    self.is_over = config.fetch_size.is_some();
                    let rows = body.tag().ok().and_then(|tag| tag.strip_prefix("COPY ")?.parse().ok());
                    Step::Counted { messages, rows: rows.unwrap_or(messages) }
                }
                Message::CommandComplete(body) => {
                    self.ends.completed(body.tag().ok())?;
                    if config.fetch_size.is_none() {
                        continue;
                    }
                    Step::Over
                }
                Message::EmptyQueryResponse => {
                    self.ends.ended();
                    if config.fetch_size.is_none() {
                        continue;
                    }
                    Step::Over
                }
                Message::ReadyForQuery(_) => {
                    self.ends.ready()?;
                    Step::Over
                }
                // Nobody here has anything to copy to the server.
                Message::CopyInResponse(_) => {
                    self.wanted_rows = true;
                    let mut out = BytesMut::new();
                    frontend::copy_fail("fathom sql only reads", &mut out)?;
                    // PostgreSQL has ignored the one that came with the request.
                    if !config.simple && config.fetch_size.is_none() {
                        frontend::sync(&mut out);
                    }
                    Step::Also(out.to_vec())
                }
                _ => continue,
            }));
        }
    }

    fn cancel(&mut self, login: &Login) -> io::Result<Option<Vec<u8>>> {
        let Some(key) = self.key else { return Ok(None) };
        self.unasked = cancel(login, key);
        Ok(Some(Vec::new()))
    }

    fn unasked(&self) -> Option<&Error> {
        self.unasked.get()
    }

    /// The batch of a query that was fetched in pieces ends by itself.
    fn after(&mut self, config: &Config) -> Option<Vec<u8>> {
        config.fetch_size?;
        let mut out = BytesMut::new();
        frontend::sync(&mut out);
        Some(out.to_vec())
    }

    fn ask(&mut self, sql: &str, login: &Login) -> Result<Vec<Option<String>>, Error> {
        Session::ask(self, sql, login)
    }

    fn look(&mut self, watch: &Watch, login: &Login) -> Result<Vec<Option<String>>, Error> {
        let of = watch.of.as_deref().unwrap_or_default();
        self.ask_prepared(&watch.sql, of, login)
    }

    fn is_ready(&self) -> bool {
        !self.is_asked
    }

    fn watch(&mut self, login: &Login) -> Result<Watch, Error> {
        // Behind a pooler another backend answers than the one that the login named.
        let pid = Session::ask(self, "SELECT pg_catalog.pg_backend_pid()", login)?;
        let pid = pid.into_iter().next().flatten().and_then(|pid| pid.parse::<i32>().ok());
        let pid = pid.ok_or_else(|| Error::run("the server does not name the session's backend"))?;
        let sql = format!(
            "SELECT state, wait_event_type, wait_event, {LASTED_US} FROM pg_catalog.pg_stat_get_activity($1)"
        );
        let grant = format!(
            "GRANT EXECUTE ON FUNCTION pg_catalog.pg_stat_get_activity(integer) TO {} lets it see them",
            quoted(&login.server.user)
        );
        Ok(Watch {
            sql,
            of: Some(pid.to_string()),
            is_anothers: self.key.is_some_and(|(named, _)| named != pid),
            read: state,
            // Everybody is shown every backend, if not what it does.
            unlisted: format!(
                "the server has no backend {pid}, by whose number it answers: a pooler or balancer between has others answer"
            ),
            gone: format!(
                "backend {pid} is gone from the server, which listed it before: somebody ended it (pg_terminate_backend), or a pooler between did"
            ),
            grant: Some(("42501", grant)),
            waits: None,
        })
    }

    fn lasted(&self, answer: &[Option<String>]) -> Option<Lasted> {
        let ns = answer.get(3)?.as_ref()?.parse::<i64>().ok()?.checked_mul(1_000)?;
        // One that waits for more of a batch has been active since its last message, however much it did then.
        let is_rest = answer[0].as_ref().is_some_and(|state| state.starts_with("idle"));
        Some(Lasted { ns, within_ns: 0, is_rest })
    }

    fn rows(&self, rows: u64, row_bytes: u64) -> String {
        // Rows of a set-returning function in a select list are sent as they are made; in FROM they would be stored first.
        format!(
            "SELECT pg_catalog.repeat('x', {row_bytes}) FROM (SELECT pg_catalog.generate_series(1, {rows})) AS made"
        )
    }

    fn remedy(&self, refusal: &Refusal, sql: &str, config: &Config) -> &'static str {
        let is_several = !config.simple && is_several(sql, Dialect::Postgres);
        match refusal.code.as_str() {
            "57014" if self.wanted_rows => {
                "fathom sends no rows to a server: ask for some, as COPY … TO STDOUT does"
            }
            // It names none, however it puts them: the message is of a bind without values, or of a type that is not known.
            "08P01" | "42P02" | "42P18" if has_parameters(sql, Dialect::Postgres) => {
                "nobody gives values to $1 and the like: write them into the query"
            }
            "42601" if is_several && config.fetch_size.is_some() => {
                "ask one statement at a time, or several with --simple and without --fetch-size"
            }
            "42601" if is_several => "several statements at once need --simple",
            "57014" | "25P03" | "25P04" => {
                "somebody cancelled it (pg_cancel_backend), or a timeout of the server's is over (statement_timeout)"
            }
            "25006" => "fathom's own queries only read: give yours with --query",
            "42501" => "grant the user what it needs",
            code => ending::of_a_pooler(refusal)
                .or_else(|| remedy::of_state(code))
                .unwrap_or("see the server's log"),
        }
    }

    fn facts(&mut self) -> Facts {
        let encrypted = self.channel.is_encrypted();
        Facts {
            version: self.version.clone(),
            encrypted,
            database: None,
            packets: Value::Null,
            notes: vec![],
        }
    }
}

/// The rows that are asked for at once. Without a fetch size the batch ends with them.
fn execute(config: &Config, out: &mut BytesMut) -> io::Result<()> {
    let rows = config.fetch_size.map_or(0, |n| i32::try_from(n).unwrap_or(i32::MAX));
    frontend::execute("", rows, out)?;
    if rows == 0 {
        frontend::sync(out);
    } else {
        frontend::flush(out);
    }
    Ok(())
}

/// A name as it is written in SQL.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn state(answer: Vec<Option<String>>) -> Result<Seen, Error> {
    let Ok([state, kind, event, _]) = <[Option<String>; 4]>::try_from(answer) else {
        return Err(Error::run(
            "the server describes the session's backend by other columns than were asked for",
        ));
    };
    let Some(state) = state else {
        return Err(Error::run(
            "the server does not show what the session's backend does: where it is another user's, as behind a pooler, GRANT \
             pg_read_all_stats TO the user (which is in pg_monitor too)",
        ));
    };
    let wait = kind.zip(event).map(|(kind, event)| format!("{kind}/{event}"));
    // https://www.postgresql.org/docs/15/monitoring-stats.html#WAIT-EVENT-CLIENT-TABLE
    let state = match wait.as_deref() {
        Some("Client/ClientWrite") => ServerState::Sending,
        Some("Client/ClientRead") => ServerState::Done,
        // It is idle before the last of its answer is with the kernel, and until it has seen a request that is there.
        _ if state.starts_with("idle") => ServerState::Before,
        _ => ServerState::Working,
    };
    Ok((state, wait))
}
