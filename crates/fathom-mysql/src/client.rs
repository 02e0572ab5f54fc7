//! One session: see [`crate`].

use crate::answer::{CURSOR, Item, LAST, Place, Shape, Statement, told, values};
use crate::auth::{Plugin, itself};
use crate::greeting::{self, Facts, Greeting, ends_by_ok};
use crate::packet::{Packets, packets};
use crate::reading::{Reading, shown};
use crate::{Login, Told, Trouble, Wanted};

const QUIT: u8 = 1;
const QUERY: u8 = 3;
const PING: u8 = 14;
const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;
const CLOSE: u8 = 0x19;
const FETCH: u8 = 0x1C;
/// `CURSOR_TYPE_READ_ONLY`.
const READ_ONLY: u8 = 1;
/// A server may ask for another proof, but not for ever.
const MOST_SWITCHES: u8 = 8;

/// What came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// What waits to be sent is, and then TLS begins; [`Client::secured`] says that it has.
    Secure,
    /// The session is open.
    Ready,
    /// A row was read to its end.
    Row,
    /// The server does not do what was asked, the login or a query; nothing more of its answer comes.
    Refused(Told),
    /// The server knows the statement, which has so many parameters: [`Client::execute`] follows.
    Prepared {
        /// `?` in its text.
        parameters: u16,
    },
    /// More rows are there, to be [fetched](Client::fetch).
    Suspended,
    /// The whole answer is read.
    Over,
}

/// What the server was asked last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    /// What a text, or nothing, is the answer to.
    Plain,
    Prepare,
    Execute,
    /// Whether a row of it has come.
    Fetch {
        has_row: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Greeting,
    /// TLS is to begin.
    Secure,
    Login,
    Ready,
    Answer(Place),
    /// It was refused, or makes no sense: nothing is read any more.
    Ended,
}

/// See the crate.
#[derive(Debug)]
pub struct Client {
    stage: Stage,
    login: Login,
    packets: Packets,
    greeting: Greeting,
    is_encrypted: bool,
    capabilities: u32,
    /// By what the login is being proved.
    plugin: Plugin,
    switches: u8,
    keeps_rows: bool,
    question: Question,
    /// Prepared, and not closed yet.
    statement: Option<Statement>,
    out: Vec<u8>,
}

impl Client {
    /// A session that begins; the server speaks first.
    pub fn new(login: Login) -> Self {
        Self {
            stage: Stage::Greeting,
            login,
            packets: Packets::default(),
            greeting: Greeting::default(),
            is_encrypted: false,
            capabilities: 0,
            plugin: Plugin::Native,
            switches: 0,
            keeps_rows: false,
            question: Question::Plain,
            statement: None,
            out: Vec::new(),
        }
    }

    /// What is to be sent now; empty: nothing.
    pub fn take_out(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Whether the server has not said anything yet.
    pub fn is_greeted(&self) -> bool {
        self.stage != Stage::Greeting
    }

    /// How the packet begins that came last, or is coming: for who has to say what he did not understand. Five
    /// bytes at most, and none where nothing came.
    pub fn packet_began(&self) -> Vec<u8> {
        self.packets.began()
    }

    /// What the server says of itself, once there was an event.
    pub fn facts(&self) -> &Facts {
        &self.greeting.facts
    }

    /// Whether the values of rows can be read from now on.
    pub fn keep_rows(&mut self, keeps: bool) {
        self.keeps_rows = keeps;
    }

    /// The values of the row that came last, where they are kept; `None` within: a null.
    pub fn row(&self) -> Result<Vec<Option<String>>, Trouble> {
        values(&self.packets.kept).ok_or(Trouble::Malformed("row"))
    }

    /// TLS has begun: the login follows.
    pub fn secured(&mut self) -> Result<(), Trouble> {
        if self.stage != Stage::Secure {
            return Err(Trouble::NotReady);
        }
        self.is_encrypted = true;
        self.log_in()
    }

    /// Asks; the session must be ready.
    pub fn ask(&mut self, text: &str) -> Result<(), Trouble> {
        self.text(QUERY, text, Question::Plain, Place::Result)
    }

    /// Asks in pieces: [`Event::Prepared`] is the answer, then [`execute`](Self::execute) and [`fetch`](Self::fetch) follow. A
    /// statement that was prepared before is given up, which the server answers by nothing.
    pub fn prepare(&mut self, text: &str) -> Result<(), Trouble> {
        self.text(PREPARE, text, Question::Prepare, Place::Prepared)
    }

    /// Executes what was prepared, without parameters, its rows to be fetched. What has none, or no cursor, is answered at once.
    pub fn execute(&mut self) -> Result<(), Trouble> {
        let number = self.statement.ok_or(Trouble::NotReady)?.number;
        let once = 1_u32.to_le_bytes();
        let body = [&[EXECUTE], &number.to_le_bytes()[..], &[READ_ONLY], &once].concat();
        self.command(&body, Question::Execute, Place::Result)
    }

    /// Asks for so many rows more.
    pub fn fetch(&mut self, rows: u32) -> Result<(), Trouble> {
        let number = self.statement.ok_or(Trouble::NotReady)?.number;
        let body = [&[FETCH], &number.to_le_bytes()[..], &rows.to_le_bytes()].concat();
        self.command(&body, Question::Fetch { has_row: false }, Place::Rows)
    }

    /// Asks whether the server is there, which it answers by nothing but [`Event::Over`]; the session must be ready.
    pub fn ping(&mut self) -> Result<(), Trouble> {
        self.command(&[PING], Question::Plain, Place::Result)
    }

    fn text(&mut self, command: u8, text: &str, question: Question, place: Place) -> Result<(), Trouble> {
        if self.is_ready()
            && let Some(statement) = self.statement.take()
        {
            let body = [&[CLOSE], &statement.number.to_le_bytes()[..]].concat();
            packets(&body, 0, &mut self.out);
        }
        let mut body = Vec::with_capacity(text.len() + 1);
        body.push(command);
        body.extend_from_slice(text.as_bytes());
        self.command(&body, question, place)
    }

    /// Whether it may be asked: nothing is under way, as there is where an answer was not waited for.
    pub fn is_ready(&self) -> bool {
        self.stage == Stage::Ready && self.packets.is_between()
    }

    fn command(&mut self, body: &[u8], question: Question, place: Place) -> Result<(), Trouble> {
        if !self.is_ready() {
            return Err(Trouble::NotReady);
        }
        self.question = question;
        packets(body, 0, &mut self.out);
        // The answer's numbers go on where those of the question end.
        let last = body.len() / crate::LONGEST;
        self.packets.expect((last + 1) as u8);
        self.stage = Stage::Answer(place);
        Ok(())
    }

    /// Ends the session, where nothing is under way.
    pub fn quit(&mut self) {
        if self.stage == Stage::Ready {
            packets(&[QUIT], 0, &mut self.out);
            self.stage = Stage::Ended;
        }
    }

    /// The next event out of what came; `None`: all of it is taken, more is needed, and there may be something to send.
    pub fn event(&mut self, input: &mut &[u8]) -> Result<Option<Event>, Trouble> {
        let event = self.next(input);
        if event.is_err() {
            self.stage = Stage::Ended;
        }
        event
    }

    /// Rows that follow an [`Event::Row`] and have come whole: as many of these events at once, where their values are not kept.
    pub fn rows(&mut self, input: &mut &[u8]) -> u64 {
        let is_among_rows = self.stage == Stage::Answer(Place::Rows) && !self.keeps_rows;
        if is_among_rows { self.packets.rows(input) } else { 0 }
    }

    fn next(&mut self, input: &mut &[u8]) -> Result<Option<Event>, Trouble> {
        loop {
            let keeps: &dyn Fn(u8) -> bool = match self.stage {
                Stage::Secure if input.is_empty() => return Ok(None),
                // What comes before TLS would be taken for what comes within it.
                Stage::Secure => return Err(Trouble::Unasked),
                Stage::Ended => {
                    *input = &[];
                    return Ok(None);
                }
                Stage::Answer(Place::Rows) if self.keeps_rows => &|_| true,
                Stage::Answer(place) => &move |first| place.keeps(first),
                Stage::Greeting | Stage::Login | Stage::Ready => &|_| true,
            };
            let Some(message) = self.packets.message(input, keeps) else {
                if self.stage == Stage::Greeting && self.packets.is_no_greeting() {
                    return Err(Trouble::OtherProtocol);
                }
                return Ok(None);
            };
            // Of one that is whole as of one whose header alone came: what is told may not depend on the pieces.
            if self.stage == Stage::Greeting && (message.order.is_err() || !message.is_whole) {
                return Err(Trouble::OtherProtocol);
            }
            let message = message.in_order()?;
            let kept = &self.packets.kept;
            match self.stage {
                Stage::Answer(place) => match place.item(message, kept, self.shape())? {
                    Item::Row if self.keeps_rows && !message.is_whole => {
                        return Err(Trouble::RowNotKept);
                    }
                    Item::Row => {
                        if let Question::Fetch { has_row } = &mut self.question {
                            *has_row = true;
                        }
                        return Ok(Some(Event::Row));
                    }
                    Item::Goes(place) => self.stage = Stage::Answer(place),
                    Item::Statement(statement, place) => {
                        self.statement = Some(statement);
                        self.stage = Stage::Answer(place);
                        if place == Place::Described(0) {
                            self.stage = Stage::Ready;
                            return Ok(Some(Event::Prepared { parameters: statement.parameters }));
                        }
                    }
                    Item::Over(state) => {
                        self.stage = Stage::Ready;
                        return self.over(state).map(Some);
                    }
                    Item::Refused(told) => return Ok(Some(self.refused(told, message.order.is_err()))),
                },
                _ if message.first == Some(0xFF) => {
                    let told = told(kept)?;
                    return Ok(Some(self.refused(told, true)));
                }
                _ if !message.is_whole => return Err(Trouble::TooLong("message of a login")),
                Stage::Greeting => {
                    self.greeting = Greeting::read(kept)?;
                    if let Some(event) = self.agree()? {
                        return Ok(Some(event));
                    }
                }
                Stage::Login => {
                    if self.goes_on()? {
                        self.stage = Stage::Ready;
                        return Ok(Some(Event::Ready));
                    }
                }
                Stage::Ready | Stage::Secure | Stage::Ended => return Err(Trouble::Unasked),
            }
        }
    }

    fn shape(&self) -> Shape {
        Shape { ends_by_ok: ends_by_ok(self.capabilities), may_be_cursor: self.question == Question::Execute }
    }

    /// What the end of an answer says, and the state of the session with it.
    fn over(&self, state: u16) -> Result<Event, Trouble> {
        let is_suspended = state & CURSOR != 0 && state & LAST == 0;
        match self.question {
            Question::Prepare => {
                let parameters = self.statement.map_or(0, |statement| statement.parameters);
                Ok(Event::Prepared { parameters })
            }
            // It would be asked for ever.
            Question::Fetch { has_row: false } if is_suspended => {
                Err(Trouble::Malformed("piece of a result"))
            }
            Question::Execute | Question::Fetch { .. } if is_suspended => Ok(Event::Suspended),
            Question::Plain | Question::Execute | Question::Fetch { .. } => Ok(Event::Over),
        }
    }

    /// An error ends what is under way, and where nothing is, the session.
    fn refused(&mut self, mut told: Told, is_of_the_session: bool) -> Event {
        told.is_fatal |= is_of_the_session;
        self.stage = if told.is_fatal { Stage::Ended } else { Stage::Ready };
        Event::Refused(told)
    }

    fn agree(&mut self) -> Result<Option<Event>, Trouble> {
        if !self.greeting.is_new_enough() {
            return Err(Trouble::TooOld);
        }
        match (self.login.encryption, self.greeting.encrypts()) {
            (Wanted::Everything, false) => return Err(Trouble::NotEncrypted),
            (Wanted::Everything | Wanted::IfOffered, true) => {
                let capabilities = self.greeting.agreed(&self.login, true);
                self.send(&greeting::ask_for_tls(capabilities));
                self.stage = Stage::Secure;
                return Ok(Some(Event::Secure));
            }
            (Wanted::Nothing, _) | (Wanted::IfOffered, false) => {}
        }
        self.log_in()?;
        Ok(None)
    }

    fn log_in(&mut self) -> Result<(), Trouble> {
        self.capabilities = self.greeting.agreed(&self.login, self.is_encrypted);
        // One that is not known here is not that of every user: the server says by which ours is let in.
        self.plugin =
            self.greeting.plugin.filter(|plugin| *plugin != Plugin::Clear).unwrap_or(Plugin::Native);
        let proof = self.plugin.answer(&self.login, &self.greeting.challenge, self.is_encrypted)?;
        self.send(&greeting::log_in(&self.login, self.capabilities, self.plugin, &proof));
        self.stage = Stage::Login;
        Ok(())
    }

    /// Takes a packet of the login; whether it was the last.
    fn goes_on(&mut self) -> Result<bool, Trouble> {
        let mut reading = Reading(&self.packets.kept);
        let proof = match reading.u8() {
            Some(0) => return Ok(true),
            // "Old Authentication Method Switch Request Packet": nothing but that byte.
            Some(0xFE) if reading.0.is_empty() => {
                return Err(Trouble::Plugin("mysql_old_password".to_owned()));
            }
            Some(0xFE) => {
                self.switches += 1;
                let name = reading.text();
                let known = Plugin::of(name).filter(|_| self.switches <= MOST_SWITCHES);
                self.plugin = known.ok_or_else(|| Trouble::Plugin(shown(&name[..name.len().min(64)])))?;
                self.plugin.answer(&self.login, reading.rest(), self.is_encrypted)?
            }
            Some(1) if self.plugin == Plugin::CachingSha2 => match reading.rest() {
                // "fast_auth_success": OK follows.
                [3] => return Ok(false),
                // "perform_full_authentication".
                [4] => itself(&self.login, self.is_encrypted)?,
                _ => return Err(Trouble::Malformed("word of caching_sha2_password")),
            },
            _ => return Err(Trouble::Malformed("answer to a login")),
        };
        self.send(&proof);
        Ok(false)
    }

    /// A message that follows what came.
    fn send(&mut self, body: &[u8]) {
        let number = self.packets.due();
        packets(body, number, &mut self.out);
        self.packets.expect(number.wrapping_add((body.len() / crate::LONGEST) as u8 + 1));
    }

    /// Bytes that are kept, at most.
    #[cfg(test)]
    pub(crate) fn keeps(&self) -> usize {
        assert!(self.packets.kept.capacity() <= 2 * crate::packet::KEPT);
        self.packets.kept.len()
    }
}
