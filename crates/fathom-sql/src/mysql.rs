//! A session of `MySQL` or `MariaDB`, as a run needs it. What the protocol is, `fathom_mysql` knows.

mod refused;
mod watched;

use crate::cancel::on_a_thread;
use crate::channel::Channel;
use crate::error::{Refusal, Unasked};
use crate::limit::Limit;
use crate::login::{Login, broke, more, not_secured, unreachable};
use crate::measured::Echo;
use crate::protocol::{Facts, Protocol, Step, Watch};
use crate::ssl_mode::SslMode;
use crate::statement::{Dialect, has_parameters, is_several};
use crate::violation::{Violation, of_this_side};
use crate::{Config, Error, Source, ending, remedy, stranger, tls};
use fathom_core::text::count;
use fathom_mysql::{Client, Event, Trouble, Wanted};
use fathom_os::clock::mono_ns;
use refused::{not_let_in, refusal_of, refused};
use serde_json::Value;
use std::io;
use std::net::SocketAddr;

/// Of what a server executes without one, as every `CALL`.
const NO_CURSOR: &str = "the server opened no cursor for this query (none has one that is a CALL): its rows came all at once, whatever --fetch-size says";

/// No server's `max_allowed_packet` is less (its least value, in the manuals of both).
const LEAST_PACKET: usize = 1_024;
/// In a packet with the query.
const COMMAND_BYTES: u64 = 1;

/// A session.
pub(crate) struct Mysql {
    channel: Channel,
    client: Client,
    /// The number of the error that came last.
    error: u16,
    /// Rows of this query are fetched by a cursor; and of one, or of this, they came without.
    has_cursor: bool,
    lacked_cursor: bool,
    /// The session that answers here, by its own account; `None`: it was not asked.
    number: Option<u64>,
    /// Why it could not be asked to end a query.
    unasked: Unasked,
}

impl Mysql {
    /// Logs in, for what is to be asked.
    pub(crate) fn begin(login: &Login, config: &Config) -> Result<Self, Error> {
        let limit = login.limit();
        let mut this = Self::open(login, config.simple, &limit)?;
        if login.read_only {
            // Of its own session only.
            this.ask("SET SESSION TRANSACTION READ ONLY", login)?;
        }
        match &config.source {
            // REPEAT gives a null in place of more.
            Source::Rows { row_bytes, .. } => {
                if let Some(most) = this.most_bytes(login)?.filter(|most| most < row_bytes) {
                    return Err(Error::Usage(format!(
                        "--row-bytes: no value of this server is longer than its max_allowed_packet of {most}; ask for less"
                    )));
                }
            }
            // It ends the session of whoever sends more, and mostly without a word.
            Source::Text { sql, .. } if sql.len() >= LEAST_PACKET => {
                let bytes = sql.len() as u64 + COMMAND_BYTES;
                if let Some(most) = this.most_bytes(login)?.filter(|most| *most <= bytes) {
                    return Err(Error::Usage(format!(
                        "--query: it has {}, and this server takes less than its max_allowed_packet of {most}; shorten it, or raise that \
                         (SET GLOBAL max_allowed_packet, for sessions that begin afterwards)",
                        count(sql.len() as u64, "byte")
                    )));
                }
            }
            Source::Text { .. } => {}
        }
        Ok(this)
    }

    /// A packet has less bytes.
    fn most_bytes(&mut self, login: &Login) -> Result<Option<u64>, Error> {
        let most = self.ask("SELECT @@max_allowed_packet", login)?;
        Ok(most.into_iter().next().flatten().and_then(|most| most.parse().ok()))
    }

    /// A session that does nothing but [`ping`](Self::ping).
    pub(crate) fn for_pings(login: &Login) -> io::Result<Self> {
        if let Some(error) = login.barred.get() {
            return Err(io::Error::other(error.clone()));
        }
        let limit = login.limit();
        // Where nothing answers it is seen by the kind of the error that this is so.
        let channel = Channel::connect(login.remote, &limit)?;
        login.unless_barred(|| Self::over(channel, login, false, &limit)).map_err(io::Error::other)
    }

    /// Its end of the connection.
    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        self.channel.local_addr()
    }

    /// Asks whether the server is there. `is_there`: told where its kernel has the question.
    pub(crate) fn ping(&mut self, limit: &Limit, is_there: impl Fn()) -> io::Result<Echo> {
        self.client.ping().map_err(|e| self.lost(&e))?;
        let before = self.channel.info();
        let out = self.client.take_out();
        self.channel.send(&out, limit)?;
        let mut came_ns = None;
        loop {
            match self.next()? {
                Some(Event::Over) => {
                    let kernel = before.zip(self.channel.info());
                    return Ok(Echo { came_ns: came_ns.or_else(|| Some(mono_ns())), kernel });
                }
                Some(Event::Refused(told)) => return Err(io::Error::other(refusal_of(told).words())),
                Some(_) => {}
                None => {
                    limit.check()?;
                    if !self.channel.wait(Limit::PIECE)? {
                        if self.channel.info().is_some_and(|info| info.unacked == 0) {
                            is_there();
                        }
                        continue;
                    }
                    match self.channel.fill_after_wait() {
                        Ok((filled, _)) if filled.bytes == 0 => {
                            return Err(io::ErrorKind::UnexpectedEof.into());
                        }
                        Ok((_, first_ns)) => _ = came_ns.get_or_insert(first_ns),
                        Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                        Err(e) => return Err(e),
                    }
                }
            }
        }
    }

    fn open(login: &Login, several: bool, limit: &Limit) -> Result<Self, Error> {
        login.unless_barred(|| {
            let channel = Channel::connect(login.remote, limit)
                .map_err(|e| unreachable(login, &e, "bind-address, skip-networking, a firewall"))?;
            Self::over(channel, login, several, limit)
        })
    }

    /// Logs in over a connection.
    fn over(channel: Channel, login: &Login, several: bool, limit: &Limit) -> Result<Self, Error> {
        let server = &login.server;
        let encryption = match server.ssl {
            SslMode::Disable => Wanted::Nothing,
            SslMode::Prefer if !login.is_to_stay_encrypted() => Wanted::IfOffered,
            SslMode::Prefer | SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => {
                Wanted::Everything
            }
        };
        let client = Client::new(fathom_mysql::Login {
            user: server.user.clone(),
            password: login.password.as_ref().map(|secret| secret.0.clone()),
            database: server.database.clone(),
            program: "fathom".to_owned(),
            encryption,
            is_checked: tls::is_checked(server),
            several,
        });
        let (error, has_cursor, lacked_cursor, number) = (0, false, false, None);
        let unasked = Unasked::default();
        let mut this = Self { channel, client, error, has_cursor, lacked_cursor, number, unasked };
        loop {
            let came = this.event();
            let out = this.client.take_out();
            let sent = this.channel.send(&out, limit);
            let came = came.map_err(|trouble| {
                let other = stranger::other(login, &this.channel, &stranger::MYSQL);
                other.unwrap_or_else(|| {
                    refused(login, &trouble, &this.client.packet_began(), this.channel.heard())
                })
            });
            match came? {
                Some(Event::Ready) => {
                    login.reached.reach(false, this.channel.is_encrypted());
                    return Ok(this);
                }
                Some(Event::Refused(told)) => return Err(not_let_in(login, &told)),
                Some(Event::Secure) => {
                    sent.map_err(|e| broke(login, &e))?;
                    let tls = tls::begin(server, None)?;
                    this.channel.secure(tls, limit).map_err(|e| not_secured(login, &e, &tls::MYSQL))?;
                    let secured = this.client.secured();
                    secured.map_err(|trouble| refused(login, &trouble, &[], this.channel.heard()))?;
                    let out = this.client.take_out();
                    this.channel.send(&out, limit).map_err(|e| broke(login, &e))?;
                }
                Some(Event::Row | Event::Over | Event::Prepared { .. } | Event::Suspended) => {}
                None => {
                    sent.map_err(|e| broke(login, &e))?;
                    let came = more(&mut this.channel, limit);
                    came.map_err(|e| stranger::broke_off(login, &this.channel, &e, &stranger::MYSQL))?;
                }
            }
        }
    }

    /// The next event out of what came.
    fn event(&mut self) -> Result<Option<Event>, Trouble> {
        self.take(Client::event)
    }

    /// The same, once the session is open.
    fn next(&mut self) -> io::Result<Option<Event>> {
        let event = self.event();
        event.map_err(|trouble| self.lost(&trouble))
    }

    fn lost(&self, trouble: &Trouble) -> io::Error {
        if trouble.is_of_this_side() {
            return of_this_side(trouble);
        }
        Violation::error(trouble, &self.client.packet_began())
    }

    /// Takes something out of what came.
    fn take<T>(&mut self, take: impl FnOnce(&mut Client, &mut &[u8]) -> T) -> T {
        let all = self.channel.inbox.rest();
        let mut rest = all;
        let taken = take(&mut self.client, &mut rest);
        let bytes = all.len() - rest.len();
        self.channel.inbox.advance(bytes);
        taken
    }

    fn answer(&mut self, login: &Login, limit: &Limit) -> Result<Vec<Option<String>>, Error> {
        let mut row = Vec::new();
        loop {
            match self.next().map_err(|e| broke(login, &e))? {
                Some(Event::Row) => {
                    row = self.client.row().map_err(|e| broke(login, &self.lost(&e)))?;
                }
                // The server ends, or this session alone was ended: another one may be had.
                Some(Event::Refused(told)) if matches!(told.number, 1053 | 1927 | 4031) => {
                    let (address, refusal) = (login.server.address(), refusal_of(told));
                    let to_do = ending::by_mysql(&refusal);
                    let line = format!("{address} ended the session: {}; {to_do}", refusal.words());
                    return Err(Error::Passing(line));
                }
                Some(Event::Refused(told)) => return Err(refusal_of(told).into()),
                Some(Event::Over) => return Ok(row),
                Some(Event::Secure | Event::Ready | Event::Prepared { .. } | Event::Suspended) => {}
                None => more(&mut self.channel, limit).map_err(|e| broke(login, &e))?,
            }
        }
    }
}

/// So that the server does not count an aborted client.
impl Drop for Mysql {
    fn drop(&mut self) {
        self.client.quit();
        let out = self.client.take_out();
        // A new connection has room for five bytes, and whoever leaves waits for nobody.
        _ = self.channel.send_what_fits(&out);
    }
}

impl Protocol for Mysql {
    fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }

    fn request(&mut self, sql: &str, config: &Config) -> io::Result<Vec<u8>> {
        let asked = match config.fetch_size {
            Some(_) => {
                self.has_cursor = false;
                self.client.prepare(sql)
            }
            None => self.client.ask(sql),
        };
        asked.map_err(|e| self.lost(&e))?;
        Ok(self.client.take_out())
    }

    fn step(&mut self, config: &Config) -> io::Result<Option<Step>> {
        Ok(match self.next()? {
            None => None,
            Some(Event::Row) => {
                self.lacked_cursor |= config.fetch_size.is_some() && !self.has_cursor;
                let more = if config.think.is_zero() { self.take(Client::rows) } else { 0 };
                Some(Step::Rows(1 + more))
            }
            Some(Event::Refused(told)) => {
                self.error = told.number;
                Some(Step::Refused { refusal: refusal_of(told), is_over: true })
            }
            Some(Event::Prepared { parameters: 0 }) => {
                self.client.execute().map_err(|e| self.lost(&e))?;
                Some(Step::Turn(self.client.take_out()))
            }
            Some(Event::Prepared { parameters }) => {
                let message =
                    format!("the query has parameters ({parameters} of ?), of which nobody says the values");
                // "using clause does not match dynamic parameter specification".
                let refusal = Refusal { code: "07001".to_owned(), message, ..Refusal::default() };
                self.error = 0;
                Some(Step::Refused { refusal, is_over: true })
            }
            Some(Event::Suspended) => {
                self.has_cursor = true;
                let fetched = self.client.fetch(config.fetch_size.unwrap_or(u32::MAX));
                fetched.map_err(|e| self.lost(&e))?;
                Some(Step::Turn(self.client.take_out()))
            }
            Some(Event::Over | Event::Secure | Event::Ready) => Some(Step::Over),
        })
    }

    /// On a connection of its own: this one answers, and listens to nobody.
    fn cancel(&mut self, login: &Login) -> io::Result<Option<Vec<u8>>> {
        let greeted = self.client.facts().connection;
        // Behind a proxy the number of its greeting may be somebody else's session at the server.
        if self.number.is_some_and(|number| number != u64::from(greeted)) {
            return Ok(None);
        }
        let kill = format!("KILL QUERY {greeted}");
        self.unasked = on_a_thread(login, move |login| {
            Self::open(login, false, &login.limit())?.ask(&kill, login).map(|_| ())
        });
        Ok(Some(Vec::new()))
    }

    fn unasked(&self) -> Option<&Error> {
        self.unasked.get()
    }

    fn after(&mut self, _: &Config) -> Option<Vec<u8>> {
        None
    }

    fn ask(&mut self, sql: &str, login: &Login) -> Result<Vec<Option<String>>, Error> {
        let limit = login.limit();
        self.client.ask(sql).map_err(|e| broke(login, &self.lost(&e)))?;
        let out = self.client.take_out();
        self.channel.send(&out, &limit).map_err(|e| broke(login, &e))?;
        self.client.keep_rows(true);
        let answer = self.answer(login, &limit);
        self.client.keep_rows(false);
        answer
    }

    fn is_ready(&self) -> bool {
        self.client.is_ready()
    }

    fn watch(&mut self, login: &Login) -> Result<Watch, Error> {
        // Behind a proxy another session answers than the one that the greeting named.
        let number = self.ask("SELECT CONNECTION_ID()", login)?;
        let number = number.into_iter().next().flatten().and_then(|number| number.parse::<u64>().ok());
        let number = number.ok_or_else(|| Error::run("the server does not number the session"))?;
        self.number = Some(number);
        Ok(watched::watch(number, self.client.facts().connection))
    }

    fn rows(&self, rows: u64, row_bytes: u64) -> String {
        // Ten by themselves and again: made as they are sent, of no table, where a recursive query would be stored first, and ends
        // at 1,000 (cte_max_recursion_depth, max_recursive_iterations).
        let ten = "(SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 \
                   UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)";
        let digits = rows.saturating_sub(1).checked_ilog10().map_or(1, |digits| digits + 1);
        let made: Vec<String> = (0..digits).map(|digit| format!("{ten} AS d{digit}")).collect();
        format!("SELECT REPEAT('x', {row_bytes}) AS body FROM {} LIMIT {rows}", made.join(" CROSS JOIN "))
    }

    fn remedy(&self, refusal: &Refusal, sql: &str, config: &Config) -> &'static str {
        match self.error {
            1064 if !config.simple && is_several(sql, Dialect::Mysql) => {
                "several statements at once need --simple"
            }
            1064 if has_parameters(sql, Dialect::Mysql) => {
                "nobody gives values to ?: write them into the query"
            }
            1226 => "that is the user's own limit: wait, or raise it by ALTER USER … WITH …",
            1046 => "name a database, as in mysql://user@host/database",
            1044 | 1142 | 1143 | 1227 | 1370 => "grant the user what it needs",
            0 => "write the values into it",
            1295 => "it cannot be prepared: leave --fetch-size out",
            1153 => "the server's max_allowed_packet is too small for the query",
            1020 | 1205 | 1213 => remedy::AGAIN,
            // Of MySQL it may be the session that was ended, which shows when it is asked again.
            1317 => "somebody ended it by KILL: the server's administrator, or a program of theirs",
            1969 | 3024 => {
                "the server's time limit is over (max_statement_time of MariaDB, max_execution_time of MySQL)"
            }
            1792 => "fathom's own queries only read: give yours with --query",
            1148 | 3948 | 4166 => "fathom sends no file of this host to a server",
            number => ending::of_a_proxy(number, &refusal.message)
                .unwrap_or_else(|| remedy::of_mysql(number, &refusal.code)),
        }
    }

    fn facts(&mut self) -> Facts {
        Facts {
            version: Some(self.client.facts().version.clone()).filter(|version| !version.is_empty()),
            encrypted: self.channel.is_encrypted(),
            database: None,
            packets: Value::Null,
            notes: self.lacked_cursor.then(|| NO_CURSOR.to_owned()).into_iter().collect(),
        }
    }
}
