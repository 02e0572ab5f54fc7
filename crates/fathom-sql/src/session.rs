//! A session of `PostgreSQL`: its login, and the messages of it that anybody asks for.

mod ends;
mod opening;
mod questions;
mod refused;
mod scram;

use crate::channel::Channel;
use crate::error::{Refusal, Unasked};
use crate::limit::Limit;
use crate::login::{Login, broke, more};
use crate::reader::{Item, Reader};
use crate::stranger::{POSTGRES, broke_off};
use crate::violation::Violation;
use crate::{Error, Server, SslMode};
use bytes::BytesMut;
pub(crate) use ends::Ends;
use fallible_iterator::FallibleIterator;
pub(crate) use opening::open;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::SCRAM_SHA_256;
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;
use refused::{no_longer_proven, refused, senseless, unknown_login, unproven};
use scram::Scram;
use std::io;

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
    /// What the server has said of the end of the answer that comes.
    pub(crate) ends: Ends,
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

impl Session {
    /// Logs in.
    pub(crate) fn begin(login: &Login) -> Result<Self, Error> {
        login.unless_barred(|| Self::begin_at_last(login))
    }

    fn begin_at_last(login: &Login) -> Result<Self, Error> {
        let limit = login.limit();
        let channel = open(login, &limit)?;
        let is_preferred =
            login.server.ssl == SslMode::Prefer && channel.is_encrypted() && !login.is_to_stay_encrypted();
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
            ends: Ends::default(),
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
                    return Err(broke(login, &Violation::error(&"rows before anything was asked", &[])));
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
        let (mut is_asked, mut is_let_in, mut scram) = (false, false, Scram::default());
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
        let wrong = |e: io::Error| senseless(login, &e.to_string());
        let unknown = |by: &str| Err(NotLetIn::Otherwise(unknown_login(login, by)));
        loop {
            let mut out = BytesMut::new();
            let message = self.message(login, limit)?;
            if login.reached.is_proven()
                && scram.is_unasked()
                && let Some(instead) = without_proof(&message, &server.user)
            {
                return Err(no_longer_proven(login, &instead).into());
            }
            match message {
                Message::AuthenticationCleartextPassword if scram.is_unasked() => {
                    frontend::password_message(password()?, &mut out).map_err(wrong)?;
                }
                Message::AuthenticationMd5Password(body) if scram.is_unasked() => {
                    let hash = md5_hash(server.user.as_bytes(), password()?, body.salt());
                    frontend::password_message(hash.as_bytes(), &mut out).map_err(wrong)?;
                }
                Message::AuthenticationSasl(body) if scram.is_unasked() => {
                    let offered: Vec<_> =
                        body.mechanisms().map(|name| Ok(name.to_owned())).collect().map_err(wrong)?;
                    if !offered.iter().any(|name| name == SCRAM_SHA_256) {
                        let offered = offered.join(" or ");
                        return unknown(if offered.is_empty() {
                            "SASL without a mechanism"
                        } else {
                            &offered
                        });
                    }
                    let first = scram.begin(password()?);
                    frontend::sasl_initial_response(SCRAM_SHA_256, &first, &mut out).map_err(wrong)?;
                }
                Message::AuthenticationSaslContinue(body) => {
                    let proof = scram.prove(login, body.data())?;
                    frontend::sasl_response(&proof, &mut out).map_err(wrong)?;
                }
                Message::AuthenticationSaslFinal(body) => scram.check(login, body.data())?,
                Message::AuthenticationOk if scram.is_owed() => {
                    return Err(unproven(login, "it let the user in without that").into());
                }
                Message::AuthenticationOk => is_let_in = true,
                Message::BackendKeyData(body) => self.key = Some((body.process_id(), body.secret_key())),
                Message::ParameterStatus(body) if body.name().is_ok_and(|name| name == "server_version") => {
                    self.version = body.value().ok().map(str::to_owned);
                }
                Message::ParameterStatus(_) => {}
                Message::ReadyForQuery(_) if is_let_in => {
                    login.reached.reach(scram.is_proven(), self.channel.is_encrypted());
                    return Ok(());
                }
                Message::ReadyForQuery(_) if scram.is_owed() => {
                    return Err(unproven(login, "it went on without that").into());
                }
                Message::ErrorResponse(body) => {
                    let refusal = Refusal::of(&body);
                    let error = refused(login, &refusal, is_asked);
                    let is_at_once = !is_asked && refusal.code == "28000";
                    return Err(if is_at_once { NotLetIn::AtOnce(error) } else { error.into() });
                }
                Message::AuthenticationGss => return unknown("GSSAPI"),
                Message::AuthenticationKerberosV5 => return unknown("Kerberos V5"),
                Message::AuthenticationSspi => return unknown("SSPI"),
                Message::AuthenticationScmCredential => return unknown("SCM credentials"),
                _ => return Err(senseless(login, "a message that is none of a login").into()),
            }
            if !out.is_empty() {
                is_asked = true;
                self.send(&out, login, limit)?;
            }
        }
    }
}

/// What a server does that asks for no proof of its own, in words that follow its name.
fn without_proof(message: &Message, user: &str) -> Option<String> {
    match message {
        Message::AuthenticationCleartextPassword => {
            Some(format!("asks for the password of {user} in the clear"))
        }
        Message::AuthenticationMd5Password(_) => Some(format!("asks for the password of {user} by md5")),
        Message::AuthenticationOk => Some(format!("lets {user} in without asking for the password")),
        _ => None,
    }
}
