//! Questions of fathom's own, whose answer is one row of texts.

use super::Session;
use super::ends::untold;
use super::refused::ended;
use crate::Error;
use crate::error::Refusal;
use crate::login::{Login, broke, more};
use crate::reader::whole;
use crate::violation::Violation;
use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::IsNull;
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;
use std::io;

impl Session {
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
        let (mut refusal, mut is_told) = (None, false);
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
                    let ranges: Vec<_> =
                        body.ranges().collect().map_err(|e| broke(login, &Violation::error(&e, b"D")))?;
                    let text = |range: std::ops::Range<usize>| {
                        buffer.get(range).map(|b| String::from_utf8_lossy(b).into_owned())
                    };
                    answer = ranges.into_iter().map(|range| range.and_then(text)).collect();
                }
                Message::ErrorResponse(body) => refusal = Some(Refusal::of(&body)),
                Message::CommandComplete(_) | Message::EmptyQueryResponse => is_told = true,
                // That there is no row would say something.
                Message::ReadyForQuery(_) if !is_told && refusal.is_none() => {
                    return Err(broke(login, &untold()));
                }
                Message::ReadyForQuery(_) => break,
                _ => {}
            }
            if let Some(refusal) = refusal.take_if(|refusal| refusal.is_fatal) {
                return Err(ended(login, &refusal));
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
