//! A connection from its opening to where queries may be asked: TLS, login, parameters.

use crate::channel::Channel;
use crate::error::{Refusal, Unasked};
use crate::limit::{Limit, is_ended};
pub(crate) use crate::login::{Login, broke};
use crate::reader::{Item, Reader, whole};
use crate::stranger::{POSTGRES, broke_off, other};
use crate::{Error, Server, SslMode, tls};
use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::IsNull;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::mpsc::RecvTimeoutError;

/// A session that waits for a query.
pub(crate) struct Session {
    pub(crate) channel: Channel,
    pub(crate) reader: Reader,
    /// By which it can be cancelled.
    pub(crate) key: Option<(i32, i32)>,
    /// What the server says it is.
    pub(crate) version: Option<String>,
    /// A query wanted rows of this end (`COPY … FROM STDIN`).
    pub(crate) wanted_rows: bool,
    /// A question of ours is not answered yet.
    pub(crate) is_asked: bool,
    /// Why it could not be asked to end a query.
    pub(crate) unasked: Unasked,
    /// The question that was prepared on it; `None`: it prepares none (a pooler has others answer).
    pub(crate) prepared: Option<String>,
    /// Messages of rows that are copied out, and that a count of them ended the answer: [`crate::protocol::Step::Over`] is next.
    pub(crate) copied: u64,
    pub(crate) is_over: bool,
}

/// A login that came to nothing.
enum NotLetIn {
    /// Refused before anything was asked of this side: the server lets nobody in so (28000).
    AtOnce(Error),
    Otherwise(Error),
}

impl From<Error> for NotLetIn {
    fn from(error: Error) -> Self {
        Self::Otherwise(error)
    }
}

/// The first address of the server: several behind a name would be several paths.
pub(crate) fn lookup(server: &Server, limit: &Limit) -> Result<SocketAddr, Error> {
    let unknown = |why: String| {
        Error::run(format!("cannot find the host {}: {why}; see that the name is right", server.host))
    };
    // On a thread of its own: the system's resolver cannot be told to end, and may wait for its servers for half a minute.
    let (tell, told) = std::sync::mpsc::channel();
    let (host, port) = (server.host.clone(), server.port);
    let ask = move || tell.send((host.as_str(), port).to_socket_addrs().map(|mut found| found.next()));
    let spawned = std::thread::Builder::new().name("lookup".into()).spawn(ask);
    spawned.map_err(|e| Error::run(format!("cannot begin a thread: {e}")))?;
    let found = loop {
        match told.recv_timeout(Limit::PIECE) {
            Ok(found) => break found,
            Err(RecvTimeoutError::Disconnected) => return Err(unknown("the resolver failed".to_owned())),
            Err(RecvTimeoutError::Timeout) => limit.check_for("answer").map_err(|e| {
                if is_ended(&e) {
                    return Error::run(format!(
                        "the address of {} was not waited for any longer: {e}",
                        server.host
                    ));
                }
                unknown(e.to_string())
            })?,
        }
    };
    found.map_err(|e| unknown(e.to_string()))?.ok_or_else(|| unknown("it has no address".to_owned()))
}

/// A connection on which nothing was said but what TLS needs.
pub(crate) fn open(login: &Login, limit: &Limit) -> Result<Channel, Error> {
    let address = login.server.address();
    let mut channel = Channel::connect(login.remote, limit)
        .map_err(|e| unreachable(login, &e, "listen_addresses, pg_hba.conf, a firewall"))?;
    if login.server.ssl == SslMode::Disable {
        return Ok(channel);
    }
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    channel.send(&request, limit).map_err(|e| broke_off(login, &channel, &e, &POSTGRES))?;
    while channel.inbox.is_empty() {
        more(&mut channel, limit).map_err(|e| broke_off(login, &channel, &e, &POSTGRES))?;
    }
    // One byte, and nothing behind it that is not encrypted (CVE-2021-23222).
    let answer = channel.inbox.rest().to_vec();
    channel.inbox.clear();
    match answer.as_slice() {
        b"S" => {
            let home = std::env::var_os("HOME").map(PathBuf::from);
            let begun = channel.secure(tls::begin(&login.server, home)?, limit);
            begun.map_err(|e| not_secured(login, &e, &tls::POSTGRES))?;
        }
        b"N" if login.server.ssl == SslMode::Prefer => {}
        b"N" => {
            return Err(Error::run(format!(
                "{address} does not speak TLS; switch ssl on in its postgresql.conf, or go without by sslmode=disable"
            )));
        }
        _ => {
            let unknown = || {
                Error::run(format!(
                    "{address} does not speak PostgreSQL's protocol; name the database's own port"
                ))
            };
            return Err(other(login, &channel, &POSTGRES).unwrap_or_else(unknown));
        }
    }
    Ok(channel)
}

/// Waits for more bytes.
pub(crate) fn more(channel: &mut Channel, limit: &Limit) -> io::Result<()> {
    loop {
        limit.check()?;
        match channel.fill() {
            Ok(filled) if filled.bytes == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => return Ok(()),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                channel.wait(Limit::PIECE)?;
            }
            Err(e) => return Err(e),
        }
    }
}

impl Session {
    /// Logs in.
    pub(crate) fn begin(login: &Login) -> Result<Self, Error> {
        login.unless_barred(|| Self::begin_at_last(login))
    }

    fn begin_at_last(login: &Login) -> Result<Self, Error> {
        let limit = login.limit();
        let channel = open(login, &limit)?;
        let is_preferred = login.server.ssl == SslMode::Prefer && channel.is_encrypted();
        match Self::over(channel, login, &limit) {
            Ok(session) => Ok(session),
            // As libpq does it (`hostnossl` of `pg_hba.conf`): sslmode=prefer is content without TLS. Not where a password was
            // asked for: libpq would send it once more, for everybody to read.
            Err(NotLetIn::AtOnce(error)) if is_preferred => {
                let server = Server { ssl: SslMode::Disable, ..login.server.clone() };
                let plain = Login { server, ..login.clone() };
                Self::over(open(&plain, &limit)?, &plain, &limit).map_err(|_| error)
            }
            Err(NotLetIn::AtOnce(error) | NotLetIn::Otherwise(error)) => Err(error),
        }
    }

    fn over(channel: Channel, login: &Login, limit: &Limit) -> Result<Self, NotLetIn> {
        let mut session = Self {
            channel,
            reader: Reader::default(),
            key: None,
            version: None,
            wanted_rows: false,
            is_asked: false,
            unasked: Unasked::default(),
            prepared: Some(String::new()),
            copied: 0,
            is_over: false,
        };
        let server = &login.server;
        let mut parameters = vec![
            ("user", server.user.as_str()),
            ("database", &server.database),
            ("application_name", "fathom"),
            ("client_encoding", "UTF8"),
        ];
        if login.read_only {
            // Its own session only.
            parameters.push(("options", "-c default_transaction_read_only=on"));
        }
        let mut out = BytesMut::new();
        frontend::startup_message(parameters, &mut out)
            .map_err(|e| Error::Usage(format!("cannot log in: {e}")))?;
        session.send(&out, login, limit)?;
        session.log_in(login, limit)?;
        Ok(session)
    }

    fn send(&mut self, out: &[u8], login: &Login, limit: &Limit) -> Result<(), Error> {
        self.channel.send(out, limit).map_err(|e| broke(login, &e))
    }

    /// The login broke off.
    fn broke_off(&self, login: &Login, error: &io::Error) -> Error {
        broke_off(login, &self.channel, error, &POSTGRES)
    }

    /// The next message that is none of those that may come at any time.
    fn message(&mut self, login: &Login, limit: &Limit) -> Result<Message, Error> {
        loop {
            let next = self.reader.next(&mut self.channel.inbox);
            match next.map_err(|e| self.broke_off(login, &e))? {
                Some(Item::Message(Message::NoticeResponse(_) | Message::NotificationResponse(_))) => {}
                Some(Item::Message(message)) => return Ok(message),
                Some(Item::Row | Item::Copied) => {
                    return Err(Error::run(format!("{} answers what was not asked", login.server.address())));
                }
                None => {
                    let came = more(&mut self.channel, limit);
                    came.map_err(|e| self.broke_off(login, &e))?;
                }
            }
        }
    }

    fn log_in(&mut self, login: &Login, limit: &Limit) -> Result<(), NotLetIn> {
        let server = &login.server;
        let mut is_asked = false;
        let mut scram: Option<ScramSha256> = None;
        let password = || {
            let none = || {
                Error::run(format!(
                    "{} asks for the password of {}; give it by PGPASSWORD, ~/.pgpass or PGPASSFILE",
                    server.address(),
                    server.user
                ))
            };
            login.password.as_ref().map(|secret| secret.0.as_bytes()).ok_or_else(none)
        };
        let wrong = |e: io::Error| Error::run(format!("cannot log in to {}: {e}", server.address()));
        loop {
            let mut out = BytesMut::new();
            match self.message(login, limit)? {
                Message::AuthenticationCleartextPassword => {
                    frontend::password_message(password()?, &mut out).map_err(wrong)?;
                }
                Message::AuthenticationMd5Password(body) => {
                    let hash = md5_hash(server.user.as_bytes(), password()?, body.salt());
                    frontend::password_message(hash.as_bytes(), &mut out).map_err(wrong)?;
                }
                Message::AuthenticationSasl(body) => {
                    if !body.mechanisms().any(|name| Ok(name == SCRAM_SHA_256)).map_err(wrong)? {
                        return Err(NotLetIn::Otherwise(Error::run(format!(
                            "{} offers no login that fathom knows (SCRAM-SHA-256, md5, password)",
                            server.address()
                        ))));
                    }
                    let begun = scram.insert(ScramSha256::new(password()?, ChannelBinding::unsupported()));
                    frontend::sasl_initial_response(SCRAM_SHA_256, begun.message(), &mut out)
                        .map_err(wrong)?;
                }
                Message::AuthenticationSaslContinue(body) => {
                    let Some(scram) = &mut scram else {
                        return Err(wrong(io::ErrorKind::InvalidData.into()).into());
                    };
                    scram.update(body.data()).map_err(wrong)?;
                    frontend::sasl_response(scram.message(), &mut out).map_err(wrong)?;
                }
                // The server shows that it knows the password too.
                Message::AuthenticationSaslFinal(body) => {
                    scram
                        .as_mut()
                        .map_or(Err(io::ErrorKind::InvalidData.into()), |s| s.finish(body.data()))
                        .map_err(wrong)?;
                }
                Message::BackendKeyData(body) => self.key = Some((body.process_id(), body.secret_key())),
                Message::ParameterStatus(body) if body.name().is_ok_and(|name| name == "server_version") => {
                    self.version = body.value().ok().map(str::to_owned);
                }
                Message::AuthenticationOk | Message::ParameterStatus(_) => {}
                Message::ReadyForQuery(_) => return Ok(()),
                Message::ErrorResponse(body) => {
                    let refusal = Refusal::of(&body);
                    let error = refused(login, &refusal);
                    let is_at_once = !is_asked && refusal.code == "28000";
                    return Err(if is_at_once { NotLetIn::AtOnce(error) } else { error.into() });
                }
                _ => {
                    return Err(NotLetIn::Otherwise(Error::run(format!(
                        "{} offers no login that fathom knows (SCRAM-SHA-256, md5, password)",
                        server.address()
                    ))));
                }
            }
            if !out.is_empty() {
                is_asked = true;
                self.send(&out, login, limit)?;
            }
        }
    }

    /// Asks a question of ours whose answer is one row of texts; `None`: no row, or a null.
    pub(crate) fn ask(&mut self, sql: &str, login: &Login) -> Result<Vec<Option<String>>, Error> {
        let mut out = BytesMut::new();
        frontend::query(sql, &mut out).map_err(|e| Error::run(e.to_string()))?;
        self.answer(&out, login)
    }

    /// The same of a question that is asked again and again, of another value for its `$1` each time: to parse and to plan it anew takes
    /// a server longer than to answer it.
    pub(crate) fn ask_prepared(
        &mut self,
        sql: &str,
        value: &str,
        login: &Login,
    ) -> Result<Vec<Option<String>>, Error> {
        if let Some(prepared) = &self.prepared {
            let is_prepared = prepared == sql;
            let out = prepared_request(sql, value, is_prepared).map_err(|e| Error::run(e.to_string()))?;
            self.prepared = Some(sql.to_owned());
            match self.answer(&out, login) {
                Err(error) if NOT_PREPARED.iter().any(|code| error.is_refusal(code)) => self.prepared = None,
                answer => return answer,
            }
        }
        self.ask(&sql.replace("$1", value), login)
    }

    fn answer(&mut self, out: &[u8], login: &Login) -> Result<Vec<Option<String>>, Error> {
        let limit = login.limit();
        self.is_asked = true;
        self.send(out, login, &limit)?;
        let mut answer = vec![];
        let mut refusal = None;
        loop {
            // Rows are wanted here, whole.
            let message = loop {
                let parsed = whole(&mut self.channel.inbox).map_err(|e| broke(login, &e))?;
                if let Some(message) = parsed {
                    break message;
                }
                more(&mut self.channel, &limit).map_err(|e| broke(login, &e))?;
            };
            match message {
                Message::DataRow(body) => {
                    let buffer = body.buffer();
                    let ranges: Vec<_> = body.ranges().collect().map_err(|e| broke(login, &e))?;
                    let text = |range: std::ops::Range<usize>| {
                        buffer.get(range).map(|b| String::from_utf8_lossy(b).into_owned())
                    };
                    answer = ranges.into_iter().map(|range| range.and_then(text)).collect();
                }
                Message::ErrorResponse(body) => refusal = Some(Refusal::of(&body)),
                Message::ReadyForQuery(_) => break,
                _ => {}
            }
            if let Some(refusal) = refusal.take_if(|refusal| refusal.is_fatal) {
                return Err(if refusal.passes() { Error::Passing(refusal.words()) } else { refusal.into() });
            }
        }
        self.is_asked = false;
        refusal.map_or(Ok(answer), |refusal| Err(refusal.into()))
    }
}

/// Its name on the server: unlike one without a name it is nobody else's where a pooler has sessions share backends.
const PREPARED: &str = "fathom_looks";
/// `invalid_sql_statement_name`, `duplicate_prepared_statement`, `feature_not_supported`: a pooler between, which has another backend
/// answer.
const NOT_PREPARED: [&str; 3] = ["26000", "42P05", "0A000"];

/// Of a question with one value, all in texts.
fn prepared_request(sql: &str, value: &str, is_prepared: bool) -> io::Result<BytesMut> {
    let mut out = BytesMut::new();
    if !is_prepared {
        // Another one of that name, if there is one.
        frontend::close(b'S', PREPARED, &mut out)?;
        frontend::parse(PREPARED, sql, [], &mut out)?;
    }
    let bound = frontend::bind(
        "",
        PREPARED,
        [0],
        [value],
        |value, out| {
            out.extend_from_slice(value.as_bytes());
            Ok(IsNull::No)
        },
        [0],
        &mut out,
    );
    bound.map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    frontend::execute("", 0, &mut out)?;
    frontend::sync(&mut out);
    Ok(out)
}

/// EMFILE and ENFILE (asm-generic/errno-base.h): std has no kind of its own for them.
const NO_MORE_FILES: i32 = 24;
const NO_MORE_FILES_AT_ALL: i32 = 23;

/// A connection that was not set up, and what may be in its way.
pub(crate) fn unreachable(login: &Login, error: &io::Error, in_the_way: &str) -> Error {
    let address = login.server.address();
    if is_ended(error) {
        return Error::run(format!("{address} was not waited for any longer: {error}"));
    }
    let to_do = match error.raw_os_error() {
        Some(NO_MORE_FILES | NO_MORE_FILES_AT_ALL) => {
            "this process may open no more files: raise ulimit -n, or ask by fewer --connections".to_owned()
        }
        _ => format!("does the server listen there ({in_the_way})?"),
    };
    let line = format!("cannot connect to {address}: {error}; {to_do}");
    Error::of(error.kind() == io::ErrorKind::ConnectionRefused, line)
}

/// TLS that did not come about.
pub(crate) fn not_secured(login: &Login, error: &io::Error, says: &tls::Says) -> Error {
    if is_ended(error) || error.kind() == io::ErrorKind::TimedOut {
        return broke(login, error);
    }
    tls::refused(&login.server, error, says)
}

/// A login that was refused: who, where, and what to do.
fn refused(login: &Login, refusal: &Refusal) -> Error {
    let server = &login.server;
    let to_do = match refusal.code.as_str() {
        "28P01" => "give the right password by PGPASSWORD, ~/.pgpass or PGPASSFILE",
        "28000" => "see pg_hba.conf of the server, and the user's name",
        "3D000" => "name a database that is there, as in postgres://user@host/database",
        "53300" => match refusal.routine.as_str() {
            "InitializeSessionUserId" => {
                "that is the user's own limit: end other sessions of it, or raise it by ALTER ROLE … CONNECTION LIMIT (fathom needs one session to ask, and one to look at what the server does)"
            }
            "CheckMyDatabase" => {
                "that is the database's own limit: end other sessions of it, or raise it by ALTER DATABASE … CONNECTION LIMIT"
            }
            _ => "wait until other sessions have ended, or raise max_connections",
        },
        "42501" => "grant the user CONNECT on the database, or name another",
        "57P03" => "wait until the server has begun",
        "08P01" if login.read_only => {
            "a pooler may not take startup options: see ignore_startup_parameters, or use --query"
        }
        _ => "see the server's log",
    };
    let line =
        format!("cannot log in to {} as {}: {}; {to_do}", server.address(), server.user, refusal.words());
    // `ERRCODE_INVALID_PASSWORD`, `ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION`.
    match refusal.code.as_str() {
        "28P01" | "28000" => Error::Barred(line),
        _ => Error::of(refusal.passes(), line),
    }
}
