//! A session of SQL Server, and of what speaks its protocol (`fathom echo --tds`), as a run needs it. What the protocol is,
//! `fathom_tds::client` knows.

mod refused;
mod watched;

use crate::channel::Channel;
use crate::error::Refusal;
use crate::limit::Limit;
use crate::login::{Login, broke, more, unreachable};
use crate::protocol::{Facts, Lasted, Protocol, Step, Watch};
use crate::ssl_mode::SslMode;
use crate::statement::{Dialect, has_parameters};
use crate::violation::{STALE, Violation};
use crate::{Config, Error, remedy, stranger, tls};
use fathom_core::text::count;
use fathom_tds::client::{Client, Encrypted, Event, Trouble, Wanted};
use refused::{lost, refusal_of, refused, unexplained};
use serde_json::{Value, json};
use std::io;

/// What is asked for where nobody says anything: SQL Server's own default.
const PACKET: u16 = 4_096;
/// SQL Server's `datetime` is rounded to a 300th of a second (Microsoft, "datetime (Transact-SQL)"), and the clock of Windows may tick 64 times a
/// second (Microsoft, `GetSystemTimeAsFileTime` and `timeBeginPeriod`). Not measured: there was no SQL Server here.
const COARSE_NS: u64 = 20_000_000;
/// What our own server calls itself.
const OURS: &str = "Fathometer";

/// A session.
pub(crate) struct Tds {
    channel: Channel,
    client: Client,
    /// A password was sent.
    has_password: bool,
    failed: Failed,
}

/// Whether the request that is asked failed, as far as its answer is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Failed {
    No,
    /// The end of a statement says so, and nothing says why.
    Unexplained,
    Explained,
}

impl Tds {
    /// Logs in.
    pub(crate) fn begin(login: &Login, packet: Option<u16>) -> Result<Self, Error> {
        login.unless_barred(|| Self::begin_at_last(login, packet))
    }

    fn begin_at_last(login: &Login, packet: Option<u16>) -> Result<Self, Error> {
        let server = &login.server;
        let limit = login.limit();
        let wanted = match server.ssl {
            _ if server.login_only => Wanted::Login,
            SslMode::Disable => Wanted::Nothing,
            SslMode::Prefer if !login.is_to_stay_encrypted() => Wanted::IfOffered,
            SslMode::Prefer | SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => {
                Wanted::Everything
            }
        };
        let tls = (wanted != Wanted::Nothing).then(|| tls::begin_within_tds(server)).transpose()?;
        let who = fathom_tds::client::Login {
            host: "fathom".to_owned(),
            user: server.user.clone(),
            password: login.password.as_ref().map(|secret| secret.0.clone()).unwrap_or_default(),
            program: "fathom".to_owned(),
            server: server.host.clone(),
            database: server.database.clone(),
            packet: packet.unwrap_or(PACKET),
        };
        if let Some(what) = who.too_long() {
            return Err(Error::Usage(format!("the {what} is longer than SQL Server's 128 characters")));
        }
        let channel = Channel::connect(login.remote, &limit)
            .map_err(|e| unreachable(login, &e, "TCP/IP of its network configuration, a firewall"))?;
        let client = Client::new(who, wanted, tls);
        let mut this = Self { channel, client, has_password: login.password.is_some(), failed: Failed::No };
        loop {
            let came = this.client.event();
            // What says why it failed, too.
            let out = this.client.take_out();
            let sent = this.channel.send(&out, &limit);
            match came {
                Ok(Some(Event::Ready)) => {
                    login.reached.reach(false, this.client.facts().encrypted == Encrypted::Everything);
                    return Ok(this);
                }
                Ok(Some(_)) => {}
                Ok(None) => {
                    sent.map_err(|e| stranger::broke_off(login, &this.channel, &e, &stranger::MSSQL))?;
                    if this.client.has_ended() {
                        return Err(broke(login, &io::ErrorKind::UnexpectedEof.into()));
                    }
                    let came = more(&mut this.channel, &limit);
                    came.map_err(|e| stranger::broke_off(login, &this.channel, &e, &stranger::MSSQL))?;
                    this.take().map_err(|trouble| this.refused(login, &trouble))?;
                }
                Err(trouble) => return Err(this.refused(login, &trouble)),
            }
        }
    }

    fn refused(&self, login: &Login, trouble: &Trouble) -> Error {
        let other = || stranger::other(login, &self.channel, &stranger::MSSQL);
        other().unwrap_or_else(|| refused(login, trouble))
    }

    /// Gives the client what came.
    fn take(&mut self) -> Result<(), Trouble> {
        let taken = self.client.received(self.channel.inbox.rest());
        self.channel.inbox.clear();
        taken
    }

    /// What is sent now, and what its answer is, a row of texts or none.
    fn answer(&mut self, login: &Login, limit: &Limit) -> Result<Vec<Option<String>>, Error> {
        let (mut row, mut refusal, mut failed) = (Vec::new(), None, false);
        loop {
            match self.client.event().map_err(|e| broke(login, &lost(&e)))? {
                Some(Event::Row) => row = self.client.row(),
                Some(Event::Told { told, is_error: true }) => refusal = refusal.or(Some(told)),
                Some(Event::Done { failed: true, .. }) => failed = true,
                Some(Event::Over { .. }) => break,
                Some(_) => {}
                None => {
                    let out = self.client.take_out();
                    self.channel.send(&out, limit).map_err(|e| broke(login, &e))?;
                    more(&mut self.channel, limit).map_err(|e| broke(login, &e))?;
                    self.take().map_err(|e| broke(login, &lost(&e)))?;
                }
            }
        }
        match refusal.map(refusal_of).or_else(|| failed.then(unexplained)) {
            Some(refusal) => Err(refusal.into()),
            None => Ok(row),
        }
    }
}

impl Protocol for Tds {
    fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }

    fn request(&mut self, sql: &str, _: &Config) -> io::Result<Vec<u8>> {
        self.failed = Failed::No;
        self.client.ask(sql).map_err(|e| match e {
            // One is asked only after a whole answer: more came behind it.
            Trouble::NotReady => Violation::error(&STALE, &[]),
            e => lost(&e),
        })?;
        Ok(self.client.take_out())
    }

    fn step(&mut self, config: &Config) -> io::Result<Option<Step>> {
        if !self.channel.inbox.is_empty() {
            self.take().map_err(|e| lost(&e))?;
        }
        loop {
            let Some(event) = self.client.event().map_err(|e| lost(&e))? else {
                let out = self.client.take_out();
                if out.is_empty() && self.client.has_ended() {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the server ended its encryption",
                    ));
                }
                return Ok((!out.is_empty()).then_some(Step::Also(out)));
            };
            return Ok(Some(match event {
                Event::Row => {
                    let more = if config.think.is_zero() { self.client.rows() } else { 0 };
                    Step::Rows(1 + more)
                }
                Event::Told { told, is_error: true } => {
                    self.failed = Failed::Explained;
                    Step::Refused { refusal: refusal_of(told), is_over: false }
                }
                // At the end, because a query that was stopped may have statements that failed by that.
                Event::Over { stopped: false } if self.failed == Failed::Unexplained => {
                    Step::Refused { refusal: unexplained(), is_over: true }
                }
                Event::Over { stopped: false } => Step::Over,
                Event::Over { stopped: true } => {
                    let refusal = Refusal {
                        code: "attention".to_owned(),
                        message: "the query was cancelled".to_owned(),
                        ..Refusal::default()
                    };
                    Step::Refused { refusal, is_over: true }
                }
                Event::Done { failed: true, .. } if self.failed == Failed::No => {
                    self.failed = Failed::Unexplained;
                    continue;
                }
                Event::Ready | Event::Told { .. } | Event::Done { .. } => continue,
            }));
        }
    }

    fn cancel(&mut self, _: &Login) -> io::Result<Option<Vec<u8>>> {
        self.client.stop().map_err(|e| lost(&e))?;
        Ok(Some(self.client.take_out()))
    }

    fn after(&mut self, _: &Config) -> Option<Vec<u8>> {
        None
    }

    fn ask(&mut self, sql: &str, login: &Login) -> Result<Vec<Option<String>>, Error> {
        let limit = login.limit();
        self.client.ask(sql).map_err(|e| broke(login, &lost(&e)))?;
        self.client.keep_rows(true);
        let answer = self.answer(login, &limit);
        self.client.keep_rows(false);
        answer
    }

    fn is_ready(&self) -> bool {
        self.client.is_ready()
    }

    fn watch(&mut self, login: &Login) -> Result<Watch, Error> {
        let spid = self.ask("SELECT @@SPID", login)?;
        let spid = spid.into_iter().next().flatten().and_then(|spid| spid.parse::<i32>().ok());
        let spid = spid.ok_or_else(|| Error::run("the server does not number the session"))?;
        Ok(watched::watch(spid))
    }

    fn lasted(&self, answer: &[Option<String>]) -> Option<Lasted> {
        // Of one that has a request it is that of the request before.
        let idle_us = answer.get(3).filter(|_| answer.get(1) == Some(&None))?;
        let ns = idle_us.as_ref()?.parse::<i64>().ok()?.checked_mul(1_000)?;
        // Our own tells microseconds.
        let within_ns = if self.client.facts().program == OURS { 0 } else { COARSE_NS };
        Some(Lasted { ns, within_ns, is_rest: true })
    }

    fn rows(&self, rows: u64, row_bytes: u64) -> String {
        if self.client.facts().program == OURS {
            return format!("SELECT * FROM fathom_rows({rows}, {row_bytes})");
        }
        // Ten thousand by itself and by itself again: made as they are sent, of no table, so that nobody needs a permission.
        let letter = if row_bytes > 8_000 { "CAST('x' AS varchar(max))" } else { "'x'" };
        format!(
            "WITH ten AS (SELECT n FROM (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS v(n)), \
             many AS (SELECT a.n FROM ten AS a CROSS JOIN ten AS b CROSS JOIN ten AS c CROSS JOIN ten AS d) \
             SELECT TOP ({rows}) REPLICATE({letter}, {row_bytes}) AS body \
             FROM many AS a CROSS JOIN many AS b CROSS JOIN many AS c"
        )
    }

    fn remedy(&self, refusal: &Refusal, sql: &str, _: &Config) -> &'static str {
        match refusal.code.as_str() {
            "error 137" if has_parameters(sql, Dialect::Tds) => {
                "nobody gives values to @name and the like: write them into the query, or DECLARE them"
            }
            "error 229" | "error 300" => "grant the user what it needs",
            "error 1222" => "somebody holds a lock",
            // A row that is there already is of severity 14, as what a user may not do; a conflict of snapshots of 16.
            "error 2601" | "error 2627" => remedy::MEND,
            "error 3960" => remedy::AGAIN,
            "error 50000" if self.client.facts().program == OURS => "docs/tds.md names what it knows",
            _ => remedy::of_mssql(refusal.severity).unwrap_or("see the server's log"),
        }
    }

    fn facts(&mut self) -> Facts {
        let (facts, counts) = (self.client.facts(), self.client.counts());
        let mut notes = Vec::new();
        if facts.granted != facts.asked {
            let (granted, asked) = (count(facts.granted.into(), "byte"), facts.asked);
            let why = match (facts.encrypted, facts.program == OURS) {
                (Encrypted::Everything, _) if facts.asked <= facts.granted => "",
                (Encrypted::Everything, true) => "; under encryption 16383 is the most",
                (Encrypted::Everything, false) => {
                    "; under encryption 16383 is the most (sslmode=login encrypts the login alone)"
                }
                _ => "",
            };
            notes.push(format!("packets of {granted} were granted, and {asked} asked for{why}"));
        }
        if self.has_password && facts.encrypted == Encrypted::Nothing {
            notes.push(
                "the password went over the path for everybody there to read: the server does not encrypt, or was not to (sslmode)"
                    .to_owned(),
            );
        }
        Facts {
            version: Some(facts.version()),
            encrypted: facts.encrypted == Encrypted::Everything,
            database: Some(facts.database.clone()).filter(|name| !name.is_empty()),
            packets: json!({
                "asked": facts.asked,
                "granted": facts.granted,
                "encrypted": match facts.encrypted {
                    Encrypted::Nothing => "nothing",
                    Encrypted::Login => "login",
                    Encrypted::Everything => "everything",
                },
                "packets": counts.packets,
                "bytes": counts.bytes,
                "longest": counts.longest,
                "too_long": counts.too_long,
                "not_full": counts.not_full,
            }),
            notes,
        }
    }
}

/// What is to be said of the packets that were seen, as [`Facts::packets`] has them.
pub(crate) fn amiss(packets: &Value) -> Option<String> {
    let [seen, too_long, not_full, granted] =
        ["packets", "too_long", "not_full", "granted"].map(|name| packets[name].as_u64().unwrap_or(0));
    (too_long + not_full > 0).then(|| {
        format!(
            "of {}, {too_long} were longer than the {} that were granted, and {not_full} shorter though not the last of an answer",
            count(seen, "packet"),
            count(granted, "byte"),
        )
    })
}
