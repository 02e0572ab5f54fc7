//! See [`super`].

use super::replies::{Counts, Part, REPLY, Replies};
use super::request::{self, ATTENTION, BATCH, LOGIN, Login, PRELOGIN};
use super::secure::Secure;
use super::tokens::{Item, Tokens, Told};
use super::{Encrypted, Facts, Trouble, Wanted};
use crate::codec::packet::{AT_FIRST, LARGEST, SMALLEST};
use crate::codec::prelogin::{self, Encryption, PreLogin};
use rustls::ClientConnection;

/// The answer to a prelogin is shorter.
const LONGEST_PRELOGIN: usize = AT_FIRST as usize;

/// What came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The session is open.
    Ready,
    /// A row was read to its end.
    Row,
    /// The server says something; an error, where `is_error` is true.
    Told {
        /// What.
        told: Told,
        /// Whether it failed.
        is_error: bool,
    },
    /// A statement has ended.
    Done {
        /// Of so many rows, where it says so.
        rows: Option<u64>,
        /// Whether it failed.
        failed: bool,
    },
    /// The whole answer is read.
    Over {
        /// It was stopped.
        stopped: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Hello,
    /// The two ends agree on keys, in packets.
    Handshake,
    Login,
    Ready,
    Asked,
}

/// One session.
#[derive(Debug)]
pub struct Client {
    stage: Stage,
    wanted: Wanted,
    /// Until it is sent.
    login: Option<Login>,
    /// Until it begins, where it may be needed.
    tls: Option<ClientConnection>,
    /// While what is sent and what comes is encrypted.
    secure: Option<Secure>,
    replies: Replies,
    tokens: Tokens,
    /// The answer to the prelogin.
    hello: Vec<u8>,
    /// A message of the server has ended, and of what it held something may be left to be read.
    message_ended: bool,
    out: Vec<u8>,
    transaction: u64,
    facts: Facts,
    /// Of the login: whether it is acknowledged, the first error.
    acknowledged: bool,
    refusal: Option<Told>,
    /// Of an answer: its last word came, stopping was asked for, and was answered.
    is_last: bool,
    stop_asked: bool,
    stopped: bool,
}

impl Client {
    /// A session that begins: its first message waits in [`Client::take_out`]. `tls` is needed for everything but [`Wanted::Nothing`].
    pub fn new(login: Login, wanted: Wanted, tls: Option<ClientConnection>) -> Self {
        let mut client = Self {
            stage: Stage::Hello,
            wanted,
            facts: Facts { asked: login.packet, granted: AT_FIRST, ..Facts::default() },
            login: Some(login),
            tls,
            secure: None,
            replies: Replies::default(),
            tokens: Tokens::new(),
            hello: Vec::new(),
            message_ended: false,
            out: Vec::new(),
            transaction: 0,
            acknowledged: false,
            refusal: None,
            is_last: false,
            stop_asked: false,
            stopped: false,
        };
        client.out = request::packets(PRELOGIN, &prelogin::hello(request::says(wanted)), AT_FIRST).concat();
        client
    }

    /// What is to be sent now; empty: nothing.
    pub fn take_out(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Takes what came.
    pub fn received(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        match &mut self.secure {
            // Records within packets; from the login on, packets within records.
            Some(secure) if self.stage != Stage::Handshake => {
                let plain = secure.open(bytes)?;
                // An answer to what came, as to a new key.
                secure.sealed(&mut self.out);
                self.replies.take(&plain);
            }
            _ => self.replies.take(bytes),
        }
        Ok(())
    }

    /// Whether the server has ended its encryption: nothing of it follows, whatever else its connection brings.
    pub fn has_ended(&self) -> bool {
        self.secure.as_ref().is_some_and(Secure::has_ended)
    }

    /// What the login came to, once it is [`Event::Ready`].
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The packets of all answers so far.
    pub fn counts(&self) -> Counts {
        self.replies.counts
    }

    /// Whether the values of rows can be read from now on.
    pub fn keep_rows(&mut self, keeps: bool) {
        self.tokens.keeps = keeps;
    }

    /// The values of the row that came last, where they are kept; `None`: a null, or neither a text nor an integer.
    pub fn row(&self) -> Vec<Option<String>> {
        self.tokens.row()
    }

    /// Asks; the session must be ready.
    pub fn ask(&mut self, text: &str) -> Result<(), Trouble> {
        if !self.is_ready() {
            return Err(Trouble::NotReady);
        }
        self.stage = Stage::Asked;
        (self.is_last, self.stop_asked, self.stopped) = (false, false, false);
        self.send(BATCH, &request::batch(text, self.transaction))
    }

    /// Whether it may be asked: nothing is under way, as there is where an answer was not waited for.
    pub fn is_ready(&self) -> bool {
        self.stage == Stage::Ready && !self.replies.has_more()
    }

    /// Asks the server to stop what it does. The answer goes on until it says that it has.
    pub fn stop(&mut self) -> Result<(), Trouble> {
        if self.stage != Stage::Asked || self.stop_asked {
            return Ok(());
        }
        self.stop_asked = true;
        self.send(ATTENTION, &[])
    }

    /// Bytes of tokens that are kept until more come.
    #[cfg(test)]
    pub(super) fn tokens_waiting(&self) -> usize {
        self.tokens.waiting()
    }

    fn send(&mut self, kind: u8, body: &[u8]) -> Result<(), Trouble> {
        for packet in request::packets(kind, body, self.facts.granted) {
            match &mut self.secure {
                Some(secure) => secure.seal(&packet, &mut self.out)?,
                None => self.out.extend_from_slice(&packet),
            }
        }
        Ok(())
    }

    /// The next event; `None`: more bytes are needed, and there may be something to send.
    pub fn event(&mut self) -> Result<Option<Event>, Trouble> {
        loop {
            match self.stage {
                Stage::Hello => {
                    let hello = &mut self.hello;
                    let part = self.replies.part(&[REPLY], |bytes| hello.extend_from_slice(bytes))?;
                    if self.hello.len() > LONGEST_PRELOGIN {
                        return Err(Trouble::TooLong("prelogin"));
                    }
                    match part {
                        Part::Nothing => return Ok(None),
                        Part::Some => {}
                        Part::End => self.agree()?,
                    }
                }
                Stage::Handshake => {
                    if !self.shake()? {
                        return Ok(None);
                    }
                }
                Stage::Ready if self.replies.has_more() => return Err(Trouble::Unasked),
                Stage::Ready => return Ok(None),
                Stage::Login | Stage::Asked => {
                    if let Some(item) = self.tokens.next()? {
                        if let Some(event) = self.item(item)? {
                            return Ok(Some(event));
                        }
                    } else if std::mem::take(&mut self.message_ended) {
                        if !self.tokens.is_between() {
                            return Err(Trouble::Torn("reply"));
                        }
                        if let Some(event) = self.end_of_message()? {
                            return Ok(Some(event));
                        }
                    } else {
                        let tokens = &mut self.tokens;
                        match self.replies.part(&[REPLY], |bytes| tokens.take(bytes))? {
                            Part::Nothing => return Ok(None),
                            Part::Some => {}
                            Part::End => self.message_ended = true,
                        }
                    }
                }
            }
        }
    }

    /// Rows that follow an [`Event::Row`] and have come whole: as many of these events at once, where their values are not kept.
    pub fn rows(&mut self) -> u64 {
        if self.stage == Stage::Asked && !self.is_last { self.tokens.rows() } else { 0 }
    }

    /// What both ends said of encryption (MS-TDS 2.2.6.5) decides how much there is.
    fn agree(&mut self) -> Result<(), Trouble> {
        let answer = PreLogin::read(&self.hello).map_err(|_| Trouble::Torn("prelogin"))?.encryption;
        self.facts.encrypted = match (self.wanted, answer) {
            (Wanted::Nothing, Encryption::Off | Encryption::NotSupported)
            | (Wanted::IfOffered, Encryption::NotSupported) => Encrypted::Nothing,
            (Wanted::Nothing, _) => return Err(Trouble::InsistsOnEncryption),
            (Wanted::Login | Wanted::IfOffered, Encryption::Off) => Encrypted::Login,
            (_, Encryption::On | Encryption::Required) => Encrypted::Everything,
            (Wanted::Login | Wanted::Everything, Encryption::NotSupported)
            | (Wanted::Everything, Encryption::Off) => return Err(Trouble::NotEncrypted),
        };
        if self.facts.encrypted == Encrypted::Nothing {
            return self.log_in();
        }
        let tls = self.tls.take().ok_or(Trouble::InsistsOnEncryption)?;
        self.secure = Some(Secure::new(tls));
        self.stage = Stage::Handshake;
        self.handshake_out();
        Ok(())
    }

    /// Records of the handshake go within packets.
    fn handshake_out(&mut self) {
        let mut records = Vec::new();
        if let Some(secure) = &mut self.secure {
            secure.sealed(&mut records);
        }
        if !records.is_empty() {
            self.out.extend(request::packets(PRELOGIN, &records, AT_FIRST).concat());
        }
    }

    /// Goes on with the handshake; whether there is more to do.
    fn shake(&mut self) -> Result<bool, Trouble> {
        let Some(secure) = &mut self.secure else { return Err(Trouble::NotEncrypted) };
        let mut opened = Ok(Vec::new());
        let part = self.replies.part(&[REPLY, PRELOGIN], |records| opened = secure.open(records))?;
        let is_established = secure.is_established();
        // The alert, too, that says why it failed.
        self.handshake_out();
        if !opened?.is_empty() {
            return Err(Trouble::Unasked);
        }
        if is_established && self.replies.is_between_packets() {
            // From here on there are no packets but within the encryption.
            let rest = self.replies.take_rest();
            if let Some(secure) = &mut self.secure {
                let opened = secure.open(&rest)?;
                self.replies.take(&opened);
            }
            self.log_in()?;
            return Ok(true);
        }
        Ok(part != Part::Nothing)
    }

    fn log_in(&mut self) -> Result<(), Trouble> {
        self.stage = Stage::Login;
        if let Some(login) = self.login.take() {
            self.send(LOGIN, &login.encode())?;
        }
        if self.facts.encrypted == Encrypted::Login {
            self.secure = None;
        }
        Ok(())
    }

    fn item(&mut self, item: Item) -> Result<Option<Event>, Trouble> {
        // What says that it stopped may stand behind the answer that was whole by then.
        let is_late = self.stop_asked && !self.stopped && matches!(item, Item::Done { stopped: true, .. });
        if self.is_last && !is_late {
            return Err(Trouble::Unasked);
        }
        Ok(match item {
            Item::Row if self.stage == Stage::Login => return Err(Trouble::Unasked),
            Item::Row => Some(Event::Row),
            Item::Error(told) if self.stage == Stage::Login => {
                self.refusal.get_or_insert(told);
                None
            }
            Item::Info(_) if self.stage == Stage::Login => None,
            Item::Error(told) => Some(Event::Told { told, is_error: true }),
            Item::Info(told) => Some(Event::Told { told, is_error: false }),
            Item::Acknowledged { program, release } => {
                self.acknowledged = true;
                (self.facts.program, self.facts.release) = (program, release);
                None
            }
            Item::Packet(size) => {
                let granted = size.parse().ok().filter(|size| (SMALLEST..=LARGEST).contains(size));
                self.facts.granted = granted.ok_or(Trouble::Granted(size))?;
                None
            }
            Item::Database(name) => {
                self.facts.database = name;
                None
            }
            Item::Transaction(descriptor) => {
                self.transaction = descriptor;
                None
            }
            Item::Elsewhere { host, port } => return Err(Trouble::Elsewhere { host, port }),
            Item::Done { rows, failed, stopped, is_last } => {
                self.is_last = is_last;
                self.stopped |= stopped;
                (self.stage == Stage::Asked).then_some(Event::Done { rows, failed })
            }
            Item::Other => None,
        })
    }

    /// The packets that follow are of another message.
    fn end_of_message(&mut self) -> Result<Option<Event>, Trouble> {
        if !std::mem::take(&mut self.is_last) {
            return Err(Trouble::Torn("reply"));
        }
        if self.stage == Stage::Login {
            if let Some(told) = self.refusal.take() {
                return Err(Trouble::Refused(told));
            }
            if !self.acknowledged {
                return Err(Trouble::NoAnswer);
            }
            self.stage = Stage::Ready;
            self.replies.count_from_now(self.facts.granted);
            return Ok(Some(Event::Ready));
        }
        // The answer came before the server read that it is to stop: what says so is a message of its own.
        if self.stop_asked && !self.stopped {
            return Ok(None);
        }
        self.stage = Stage::Ready;
        Ok(Some(Event::Over { stopped: self.stopped }))
    }
}
