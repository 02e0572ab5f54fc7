//! See [`super`].

use super::answers::{self, About, Doing, Own, Seeing, Seen, Transfer};
use super::question::{Question, question};
use super::reply::Reply;
use super::secure::Secure;
use super::waits::Waits;
use crate::codec::Refusal;
use crate::codec::login::Login;
use crate::codec::packet::{AT_FIRST, Inbox, Kind, LARGEST_ENCRYPTED, Message, Packets};
use crate::codec::prelogin::{self, Encryption, PreLogin};
use crate::codec::request::{Call, Transaction, batch, call, transaction};
use crate::codec::token::{Done, Tokens};
use rustls::ServerConfig;
use serde::Serialize;
use std::sync::Arc;

/// What the driver is to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Send this, or a part of it, and say how much it was ([`Session::sent`]).
    Send(&'a [u8]),
    /// Nothing until then, but what comes.
    Rest {
        /// By the driver's clock.
        until_ns: u64,
    },
    /// Ask the kernel about the connection, and say what it told ([`Session::looked`]).
    Look,
    /// Ask about the session of this number, and say what it does and how long it was held up ([`Session::saw`]).
    See(u32),
    /// Wait for what comes.
    Listen,
}

/// What a session was served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Served {
    /// Questions.
    pub queries: u64,
    /// Rows put into packets.
    pub rows: u64,
    /// Bytes that the kernel took.
    pub bytes: u64,
    /// Replies that the client stopped.
    pub stopped: u64,
}

impl Served {
    /// Another session's too.
    pub fn merge(&mut self, other: Self) {
        self.queries += other.queries;
        self.rows += other.rows;
        self.bytes += other.bytes;
        self.stopped += other.stopped;
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Hello,
    /// The two ends agree on keys, in packets.
    Handshake,
    Login,
    Ready,
}

/// One session.
#[derive(Debug)]
pub struct Session {
    /// `@@SPID`.
    number: u32,
    stage: Stage,
    inbox: Inbox,
    packets: Packets,
    /// Granted, from the next message on.
    packet: u16,
    out: Vec<u8>,
    gone: usize,
    reply: Option<Reply>,
    /// The kernel is asked first; the answer is to a call.
    looking: Option<bool>,
    /// Another session is asked first.
    seeing: Option<Seeing>,
    waits: Waits,
    served: Served,
    program: String,
    insists: bool,
    /// From the prelogin on, where the client wants it and we can.
    secure: Option<Secure>,
    identity: Option<Arc<ServerConfig>>,
    /// There is no room for it, as its login is told.
    is_beyond: bool,
    /// It goes once it has been told why.
    refused: Option<Refusal>,
}

impl Session {
    /// The session of this number, whose client has just connected. With an `identity` it is encrypted for who wants that.
    pub fn new(number: u32, identity: Option<Arc<ServerConfig>>) -> Self {
        Self {
            number,
            stage: Stage::Hello,
            inbox: Inbox::default(),
            packets: Packets::new(AT_FIRST),
            packet: AT_FIRST,
            out: Vec::new(),
            gone: 0,
            reply: None,
            looking: None,
            seeing: None,
            waits: Waits::default(),
            served: Served::default(),
            program: String::new(),
            insists: false,
            secure: None,
            identity,
            is_beyond: false,
            refused: None,
        }
    }

    /// The same for a client that there is no room for: its login is answered by that.
    pub fn beyond(identity: Option<Arc<ServerConfig>>) -> Self {
        Self { is_beyond: true, ..Self::new(0, identity) }
    }

    /// Takes what came.
    pub fn received(&mut self, now_ns: u64, bytes: &[u8]) -> Result<(), Refusal> {
        match &mut self.secure {
            Some(secure) if self.stage != Stage::Handshake => {
                self.inbox.take(&secure.open(bytes)?);
                secure.sealed(&mut self.out);
            }
            _ => self.inbox.take(bytes),
        }
        self.heed_attention(now_ns)
    }

    /// Stops a reply that the client wants no more of: what came with its request too, or before its end was in packets. Later nothing is
    /// left to be stopped, and that is answered by itself.
    fn heed_attention(&mut self, now_ns: u64) -> Result<(), Refusal> {
        if let Some(reply) = &mut self.reply
            && self.stage == Stage::Ready
            && reply.has_more()
            && self.inbox.attention()?
        {
            reply.stop(now_ns);
            self.served.stopped += 1;
        }
        Ok(())
    }

    /// Whether more may be read: a client that asks ahead of its answers fills no memory.
    pub fn wants_more(&self) -> bool {
        self.inbox.has_room()
    }

    /// What is to be done now.
    pub fn step(&mut self, now_ns: u64) -> Result<Step<'_>, Refusal> {
        loop {
            if self.gone < self.out.len() {
                return Ok(Step::Send(&self.out[self.gone..]));
            }
            if self.looking.is_some() {
                return Ok(Step::Look);
            }
            if let Some(seeing) = self.seeing {
                return Ok(Step::See(seeing.number));
            }
            self.out.clear();
            self.gone = 0;
            self.heed_attention(now_ns)?;
            if let Some(reply) = &mut self.reply {
                if now_ns < reply.begins_ns {
                    return Ok(Step::Rest { until_ns: reply.begins_ns });
                }
                while reply.has_more() && !self.packets.is_full() {
                    self.served.rows += reply.put(&mut self.packets);
                }
                let last = !reply.has_more();
                match &mut self.secure {
                    Some(secure) => {
                        let mut packet = Vec::new();
                        self.packets.pack(last, &mut packet);
                        secure.seal(&packet, &mut self.out)?;
                    }
                    None => self.packets.pack(last, &mut self.out),
                }
                if last && self.packets.is_empty() {
                    self.reply = None;
                    self.packets.resize(self.packet);
                }
            } else if let Some(why) = &self.refused {
                return Err(why.clone());
            } else {
                match self.inbox.message()? {
                    Some(message) => self.serve(now_ns, &message)?,
                    None => return Ok(Step::Listen),
                }
            }
        }
    }

    /// So much of what was to be sent, the kernel took.
    pub fn sent(&mut self, bytes: usize) {
        self.gone += bytes;
        self.served.bytes += bytes as u64;
    }

    /// Sending was held up for so long.
    pub fn was_blocked(&mut self, length_ns: u64) {
        self.waits.add(length_ns);
    }

    /// What the kernel said of the connection; `None`: nothing.
    pub fn looked(&mut self, now_ns: u64, transfer: Option<Transfer>) {
        let Some(of_a_call) = self.looking.take() else { return };
        let tokens = answers::transfer(transfer, self.waits.blocked_ns, of_a_call);
        self.reply = Some(Reply::of(tokens, now_ns));
    }

    /// What that session does, and how long it was held up; `None`: there is none of this number.
    pub fn saw(&mut self, now_ns: u64, seen: Option<Seen>) {
        let Some(seeing) = self.seeing.take() else { return };
        self.reply = Some(Reply::of(answers::seen(seeing, seen, now_ns), now_ns));
    }

    /// What it does now, where the kernel takes what is sent.
    pub fn doing(&self, now_ns: u64) -> Doing {
        match &self.reply {
            Some(reply) if now_ns < reply.begins_ns => Doing::Thinks,
            None if self.is_idle() => Doing::Nothing,
            _ => Doing::Works,
        }
    }

    /// Whether the client has logged in.
    pub fn is_open(&self) -> bool {
        self.stage == Stage::Ready
    }

    /// Whether the client has ended its encryption: nothing of it follows, whatever else its connection brings.
    pub fn has_ended(&self) -> bool {
        self.secure.as_ref().is_some_and(Secure::has_ended)
    }

    /// Whether the client wants encryption and there is none: it will have gone without logging in.
    pub fn misses_encryption(&self) -> bool {
        self.insists && self.secure.is_none()
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.reply.is_none() && self.looking.is_none() && self.seeing.is_none() && self.gone >= self.out.len()
    }

    /// What it was served so far.
    pub fn served(&self) -> Served {
        self.served
    }

    /// How long sending was held up so far.
    pub fn waits(&self) -> Waits {
        self.waits
    }

    /// The program that logged in, as it says, and the size of packets that it was granted.
    pub fn client(&self) -> (&str, u16) {
        (&self.program, self.packet)
    }

    fn serve(&mut self, now_ns: u64, message: &Message) -> Result<(), Refusal> {
        let mut tokens = Tokens::default();
        if message.reset {
            tokens.was_reset();
        }
        match (self.stage, message.kind) {
            (Stage::Hello, Kind::PreLogin) => {
                // A client that insists on encryption ends the connection itself when it reads that there is none.
                let encryption = PreLogin::read(&message.body)?.encryption;
                self.insists = matches!(encryption, Encryption::On | Encryption::Required);
                if let Some(identity) = self.identity.take().filter(|_| self.insists) {
                    self.secure = Some(Secure::new(identity)?);
                }
                self.stage = if self.secure.is_some() { Stage::Handshake } else { Stage::Login };
                self.packets.put(&prelogin::answer(self.secure.is_some()));
                self.packets.pack(true, &mut self.out);
            }
            (Stage::Handshake, Kind::PreLogin) => {
                let Some(secure) = &mut self.secure else { return Ok(()) };
                let early = secure.open(&message.body)?;
                let mut records = Vec::new();
                secure.sealed(&mut records);
                Packets::handshake(&records, &mut self.out);
                if secure.is_established() {
                    self.stage = Stage::Login;
                    // From here on there are no packets but within the encryption.
                    let rest = self.inbox.take_rest();
                    let opened = secure.open(&rest)?;
                    self.inbox.take(&[early, opened].concat());
                }
            }
            (Stage::Login, Kind::Login) => {
                let read = Login::read(&message.body);
                match if self.is_beyond { read.and(Err(Refusal::Full)) } else { read } {
                    Ok(login) => {
                        self.stage = Stage::Ready;
                        self.packet = login.packet;
                        if self.secure.is_some() {
                            self.packet = self.packet.min(LARGEST_ENCRYPTED);
                        }
                        let database = if login.database.is_empty() { "master" } else { &login.database };
                        tokens.login(login.version, database, self.packet);
                        tokens.done(Done::Nothing, false);
                        self.program = login.program;
                    }
                    // Its library shows its user what an error says; of an end alone it would say that the server died.
                    Err(why @ (Refusal::Version { .. } | Refusal::Integrated | Refusal::Full)) => {
                        // "The maximum number of … user connections has already been reached" (sys.messages).
                        let number = if why == Refusal::Full { 17_809 } else { 18_456 };
                        tokens.error(number, &format!("fathom echo --tds: {why}"));
                        self.refused = Some(why);
                        tokens.done(Done::Error, false);
                    }
                    Err(why) => return Err(why),
                }
                self.reply = Some(Reply::of(tokens, now_ns));
            }
            (Stage::Hello | Stage::Handshake | Stage::Login, kind) => {
                let wanted = if self.stage == Stage::Login { "login" } else { "prelogin" };
                return Err(Refusal::OutOfTurn { got: kind.name(), wanted });
            }
            (Stage::Ready, Kind::Batch) => self.ask(now_ns, tokens, &batch(&message.body)?, false),
            (Stage::Ready, Kind::Rpc) => match call(&message.body)? {
                Call::Text(text) => self.ask(now_ns, tokens, &text, true),
                Call::Other(name) => {
                    tokens.error(2_812, &format!("this is no database and has no procedure {name}; send a query's text, or sp_executesql"));
                    tokens.done(Done::Error, true);
                    self.reply = Some(Reply::of(tokens, now_ns));
                }
            },
            (Stage::Ready, Kind::Transaction) => {
                match transaction(&message.body)? {
                    Transaction::Begin => tokens.begun(),
                    Transaction::Commit => tokens.ended(9),
                    Transaction::RollBack => tokens.ended(10),
                    Transaction::Other(kind) => {
                        tokens.error(50_001, &format!("no transaction of kind {kind}"));
                    }
                }
                tokens.done(Done::Nothing, false);
                self.reply = Some(Reply::of(tokens, now_ns));
            }
            // It came after the last packet of what it was to stop.
            (Stage::Ready, Kind::Attention) => {
                tokens.done(Done::Stopped, false);
                self.reply = Some(Reply::of(tokens, now_ns));
            }
            (Stage::Ready, kind @ (Kind::Login | Kind::PreLogin)) => {
                return Err(Refusal::OutOfTurn { got: kind.name(), wanted: "query" });
            }
        }
        Ok(())
    }

    fn ask(&mut self, now_ns: u64, mut tokens: Tokens, text: &str, of_a_call: bool) {
        self.served.queries += 1;
        match question(text) {
            Ok(Question::Rows(source)) => {
                self.reply = Some(Reply::rows(tokens, source, of_a_call, now_ns));
                return;
            }
            Ok(Question::Transfer) => {
                self.looking = Some(of_a_call);
                return;
            }
            Ok(Question::State(number)) => {
                self.seeing = Some(Seeing { number, what: About::Doing, of_a_call });
                return;
            }
            Ok(Question::Waited(number)) => {
                self.seeing = Some(Seeing { number, what: About::Waits, of_a_call });
                return;
            }
            Ok(question) => {
                let own = Own {
                    number: self.number,
                    packet: self.packet,
                    is_encrypted: self.secure.is_some(),
                    waits: self.waits,
                };
                answers::own(&question, own, &mut tokens, of_a_call);
            }
            Err(why) => {
                tokens.error(50_000, &why);
                tokens.done(Done::Error, of_a_call);
            }
        }
        self.reply = Some(Reply::of(tokens, now_ns));
    }
}
