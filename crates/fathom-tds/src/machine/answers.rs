//! What a session answers to questions about itself, another one or its connection: tables, as SQL Server's views have them.

use super::question::Question;
use super::waits::Waits;
use crate::codec::token::{Done, Tokens, Type, Value};
use serde::Serialize;

/// What a session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// It has no request.
    Nothing,
    /// It thinks, as a query asked for.
    Thinks,
    /// It makes rows.
    Works,
    /// The kernel takes nothing more.
    Blocked,
}

/// What others see of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// What it does.
    pub doing: Doing,
    /// Since when it has no request, by the driver's clock, where that is so.
    pub idle_ns: u64,
    /// How long it was held up.
    pub waits: Waits,
}

/// What the sender's kernel says of a connection since it was made (`struct tcp_info` in `linux/tcp.h`, Linux 4.10): who held up
/// what it had to send.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Transfer {
    /// There was something to send (`tcpi_busy_time`).
    pub busy_ns: u64,
    /// Of that, the receiver's window held it up (`tcpi_rwnd_limited`): the client did not read.
    pub client_ns: u64,
    /// Of that, the buffer of this side was too small (`tcpi_sndbuf_limited`).
    pub buffer_ns: u64,
}

/// What is asked of another session; the answer is to a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seeing {
    pub(super) number: u32,
    pub(super) what: About,
    pub(super) of_a_call: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum About {
    Doing,
    Waits,
}

fn ms(ns: u64) -> Value {
    Value::BigInt((ns / 1_000_000) as i64)
}

/// Status and wait, as SQL Server's view of requests has them.
fn shown(doing: Doing) -> [Value; 2] {
    let words = |status: &str, wait: &str| [status, wait].map(|word| Value::Text(word.into()));
    match doing {
        Doing::Nothing => [Value::Null, Value::Null],
        Doing::Works => [Value::Text("running".into()), Value::Null],
        Doing::Thinks => words("suspended", "WAITFOR"),
        Doing::Blocked => words("suspended", "ASYNC_NETWORK_IO"),
    }
}

/// What a session knows of itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Own {
    /// `@@SPID`.
    pub(super) number: u32,
    /// Granted.
    pub(super) packet: u16,
    pub(super) is_encrypted: bool,
    pub(super) waits: Waits,
}

/// Who held the connection up, as the kernel says; `None`: it does not.
pub(super) fn transfer(transfer: Option<Transfer>, blocked_ns: u64, of_a_call: bool) -> Tokens {
    let mut tokens = Tokens::default();
    if let Some(transfer) = transfer {
        let values = [transfer.busy_ns, transfer.client_ns, transfer.buffer_ns, blocked_ns];
        tokens.columns(&["busy_ns", "client_ns", "buffer_ns", "blocked_ns"].map(|name| (name, Type::BigInt)));
        tokens.row(&values.map(|ns| Value::BigInt(ns as i64)));
        tokens.done(Done::Rows(1), of_a_call);
    } else {
        tokens.error(
            50_002,
            "this system's kernel does not say who holds a transfer up (Linux 4.10 and later do)",
        );
        tokens.done(Done::Error, of_a_call);
    }
    tokens
}

/// What another session does now, and how long it was held up; `None`: there is none of this number.
pub(super) fn seen(seeing: Seeing, seen: Option<Seen>, now_ns: u64) -> Tokens {
    let Seeing { number, what, of_a_call } = seeing;
    let mut tokens = Tokens::default();
    let (text, number) = (Type::NVarChar(60), Value::Int(number as i32));
    match what {
        About::Doing => {
            tokens.columns(&[
                ("session_id", Type::Int),
                ("status", text),
                ("wait_type", text),
                ("idle_us", Type::MaybeInt),
            ]);
            if let Some(Seen { doing, idle_ns, .. }) = seen {
                let [status, wait] = shown(doing);
                // As many as an `int` holds are 35 minutes.
                let idle_us = i32::try_from(now_ns.saturating_sub(idle_ns) / 1_000).ok();
                let idle_us = Value::MaybeInt(idle_us.filter(|_| doing == Doing::Nothing));
                tokens.row(&[number, status, wait, idle_us]);
            }
        }
        About::Waits => {
            tokens.columns(&[
                ("session_id", Type::Int),
                ("waiting_tasks_count", Type::BigInt),
                ("wait_time_ms", Type::BigInt),
            ]);
            if let Some(Seen { waits, .. }) = seen {
                tokens.row(&[number, Value::BigInt(waits.shown_count as i64), ms(waits.blocked_ns)]);
            }
        }
    }
    tokens.done(Done::Rows(seen.is_some().into()), of_a_call);
    tokens
}

/// The answer to what a session knows by itself; to a setting, which is taken and ignored, an empty one.
pub(super) fn own(question: &Question, own: Own, tokens: &mut Tokens, of_a_call: bool) {
    let number = Value::Int(own.number as i32);
    let (columns, row): (&[(&str, Type)], Vec<Value>) = match question {
        Question::Version => {
            let version =
                format!("Fathometer {}: a TDS server for measuring, no database", env!("CARGO_PKG_VERSION"));
            (&[("version", Type::NVarChar(200))], vec![Value::Text(version)])
        }
        Question::Spid => (&[("spid", Type::Int)], vec![number]),
        Question::Number(number) => (&[("", Type::Int)], vec![Value::Int(*number)]),
        // The columns of the view of that name, in its order.
        Question::Waits => (
            &[
                ("session_id", Type::Int),
                ("wait_type", Type::NVarChar(60)),
                ("waiting_tasks_count", Type::BigInt),
                ("wait_time_ms", Type::BigInt),
                ("max_wait_time_ms", Type::BigInt),
                ("signal_wait_time_ms", Type::BigInt),
            ],
            vec![
                number,
                Value::Text("ASYNC_NETWORK_IO".into()),
                Value::BigInt(own.waits.shown_count as i64),
                ms(own.waits.blocked_ns),
                ms(own.waits.shown_longest_ns),
                Value::BigInt(0),
            ],
        ),
        Question::Connection => (
            &[
                ("session_id", Type::Int),
                ("net_packet_size", Type::Int),
                ("encrypt_option", Type::NVarChar(40)),
            ],
            vec![
                number,
                Value::Int(own.packet.into()),
                Value::Text(if own.is_encrypted { "TRUE" } else { "FALSE" }.into()),
            ],
        ),
        Question::Setting
        | Question::Rows(_)
        | Question::Transfer
        | Question::State(_)
        | Question::Waited(_) => return tokens.done(Done::Nothing, of_a_call),
    };
    tokens.columns(columns);
    tokens.row(&row);
    tokens.done(Done::Rows(1), of_a_call);
}
