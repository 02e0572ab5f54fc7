//! Finds the limit after which something on the way, or the peer, gives an idle TCP connection up: without a clock, a socket
//! or a file. A driver on sockets (`fathom limits`) feeds it, and the tests do in virtual time.
//!
//! ```text
//!     run -> cohort     lengths of idleness, and what became of the connections that were idle for each
//!         -> plan       which lengths, and which connections are kept in reserve for what lies between two of them
//!         -> guard      is it the idleness? control connections that are never idle, fresh ones beside a silence
//!         -> quiet      from when to when nothing was answered
//!         -> links      all connections, and what is told of them; -> flow one: opened, spoken on once, idle, asked once
//!     outcome           what it means: the bracket, how they died and by whose hand
//!         -> doubt      whether what became of them is one limit, or none; or neither
//!         -> band       of what is no one limit: below which length all lived, above which all died
//!         -> unanswered requests that were acknowledged and not answered are claimed to be no limit
//! ```
//!
//! What a connection goes through:
//!
//! ```text
//!                 connected         echo of its first request            its length is over
//!     opening ----------------> hello ----------------------> idle ----------------------> asked ---> echo: survived
//!                                                               |                            |
//!                                         FIN or RST: died idle +                            +--- FIN, RST: died on request
//!                                                               |                            +--- nothing, and a fresh connection
//!                                                               v                            v    is answered: died silently or,
//!                                                               |                            |    if acknowledged, not answered
//!                                                               v                            v
//!                                                              a death, which counts when every control connection has
//!                                                              been answered since; if one of them died too, nothing
//!                                                              that was not settled counts, and it begins anew
//! ```
//!
//! Asked once, a connection is closed: it is idle no more.

mod age;
mod any;
mod band;
mod ceiling;
mod cohort;
mod doubt;
mod driven;
mod flow;
mod guard;
mod io;
mod links;
mod outcome;
mod plan;
mod quiet;
mod recorded;
mod run;
mod settings;
mod share;
mod unanswered;
mod view;
mod why;
mod words;

pub use crate::event::{Death, Limit, OneWay, Side, What};
pub use age::{Ages, Life};
pub use any::{AnyRecorded, Found};
pub use ceiling::{
    Asked, Began, Bound, Ceiling, CeilingRecorded, CeilingSearch, CeilingStepped, Delays, Judged,
    Row as CeilingRow, Seen, Step, Tally, Window, ceiling_picture,
};
pub use driven::Search;
pub use io::{Input, KernelView, Output, Progress};
pub use outcome::{By, End, Meanwhile, Outcome, Row, Verdict};
pub use recorded::Recorded;
pub use run::Limits;
pub use settings::{AtMost, OPENINGS_A_SECOND, Settings, TooMany};
pub use share::wilson;
pub use view::{Standing, picture};
pub use words::what_happened;
