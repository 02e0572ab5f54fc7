//! POLICY.toml: what may stand in it, and what is wrong with one.

mod breaker;
mod raw;
#[cfg(test)]
mod tests;

use super::settings::{Age, Backoff, BudgetRule, Fallback, Jitter, Order, Policy, PoolRule, Requests, Retry};
use crate::text::position;
use crate::units::duration_compact as duration;
use raw::{Budget, File, Time, Whole};
use std::ops::Range;
use toml::Spanned;

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
/// More connections than this are another tool's business.
const MOST_CONNECTIONS: u64 = 10_000;
const MOST_RETRIES: u64 = 100;
/// A frame's header is the least, and a request stays below what is sent at once.
const SIZES: std::ops::RangeInclusive<u64> = fathom_wire::HEADER_LEN as u64..=1 << 20;

/// A mistake in a policy. Its text is one line: `FILE:LINE:COLUMN: what is wrong; what to do`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}")]
pub struct PolicyError {
    /// The file, as the caller named it.
    pub file: String,
    /// Line of the mistake, from 1.
    pub line: usize,
    /// Column of the mistake in characters, from 1.
    pub column: usize,
    /// What is wrong, and the remedy.
    pub message: String,
}

/// What is wrong, and where.
type Wrong = (Range<usize>, String);

impl Policy {
    /// Reads a policy. `file` is what messages call it.
    pub fn parse(file: &str, text: &str) -> Result<Self, PolicyError> {
        let error = |(span, message): Wrong| {
            let (line, column) = position(text, span.start);
            PolicyError { file: file.to_owned(), line, column, message }
        };
        let raw: File = toml::from_str(text)
            .map_err(|e| error((e.span().unwrap_or_default(), in_plain_words(e.message()))))?;
        policy(&raw).map_err(error)
    }

    /// Reads a policy from bytes, which may be no text at all.
    pub fn read(file: &str, bytes: &[u8]) -> Result<Self, PolicyError> {
        let text = std::str::from_utf8(bytes).map_err(|e| {
            let sound = String::from_utf8_lossy(&bytes[..e.valid_up_to()]);
            let (line, column) = position(&sound, sound.len());
            let message = format!(
                "the byte 0x{:02x} is no UTF-8 text; save the file as UTF-8, or name another",
                bytes[e.valid_up_to()]
            );
            PolicyError { file: file.to_owned(), line, column, message }
        })?;
        Self::parse(file, text)
    }
}

/// What the library says is wrong, for somebody who knows the file and not the library, in one line.
fn in_plain_words(message: &str) -> String {
    let message = message.lines().map(str::trim).collect::<Vec<_>>().join("; ");
    let is = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    if let Some((is, expected)) = is.and_then(|is| is.split_once(", expected ")) {
        let is = match is.split(' ').next().unwrap_or_default() {
            "sequence" => "a list",
            "map" => "a table or a date",
            // The value stands in quotes of its own.
            "boolean" | "integer" | "floating" => is.split('`').nth(1).unwrap_or(is),
            "string" => is.strip_prefix("string ").unwrap_or(is),
            _ => is,
        };
        let expected = if expected == "a string" { "text in quotes" } else { expected };
        return format!("{is} cannot stand here; write {expected}");
    }
    message.replacen("unknown field", "unknown key", 1)
}

/// Linux's `MAX_TCP_KEEPIDLE`, 32,767 s...
const LONGEST_KEEPALIVE_NS: u64 = 32_767 * S;
/// ...and `TCP_USER_TIMEOUT` is an int of ms (tcp(7)).
const LONGEST_USER_TIMEOUT_NS: u64 = i32::MAX as u64 * MS;

fn policy(raw: &File) -> Result<Policy, Wrong> {
    let base = Policy::default();
    let requests = requests(raw)?;
    let age = age(raw)?;
    let keepalive_ns = keepalive(raw, age)?;
    let user_timeout_ns = ns(raw.connection.user_timeout.as_ref(), "user_timeout", MS)?;
    not_above(raw.connection.user_timeout.as_ref(), "user_timeout", LONGEST_USER_TIMEOUT_NS)?;
    let breaker = raw.breaker.as_deref().map(breaker::breaker).transpose()?;
    Ok(Policy {
        requests,
        retry: raw.retry.as_deref().map(retry).transpose()?,
        connect_timeout_ns: ns(raw.connection.connect_timeout.as_ref(), "connect_timeout", MS)?
            .unwrap_or(base.connect_timeout_ns),
        keepalive_ns,
        user_timeout_ns,
        age,
        pool: pool(raw, age)?,
        recovery: raw.recovery.as_ref().map(|raw| breaker::recovery(raw, breaker)).transpose()?,
        breaker,
        fallback: raw.fallback.as_ref().map(fallback).transpose()?,
    })
}

/// A kernel takes no more: sockets with it could not be made.
fn not_above(time: Option<&Spanned<Time>>, key: &str, most_ns: u64) -> Result<(), Wrong> {
    match time {
        Some(time) if time.get_ref().0 > most_ns => {
            let message =
                format!("`{key}` is above {}, the most that Linux takes; write less", duration(most_ns));
            Err((time.span(), message))
        }
        _ => Ok(()),
    }
}

/// A duration that is at least so long.
fn ns(time: Option<&Spanned<Time>>, key: &str, least_ns: u64) -> Result<Option<u64>, Wrong> {
    let Some(time) = time else { return Ok(None) };
    let Time(ns) = *time.get_ref();
    if ns < least_ns {
        let message = format!("`{key}` is below {}; write more, or leave it out", duration(least_ns));
        return Err((time.span(), message));
    }
    Ok(Some(ns))
}

/// A whole number within bounds.
fn number(
    value: Option<&Spanned<Whole>>,
    key: &str,
    bounds: std::ops::RangeInclusive<u64>,
) -> Result<Option<u32>, Wrong> {
    let Some(value) = value else { return Ok(None) };
    let within = u64::try_from(value.get_ref().0).ok().filter(|n| bounds.contains(n));
    let message =
        || format!("`{key}` goes from {} to {}, not {}", bounds.start(), bounds.end(), value.get_ref().0);
    within.map(|n| Some(n as u32)).ok_or_else(|| (value.span(), message()))
}

fn requests(raw: &File) -> Result<Requests, Wrong> {
    let (base, raw) = (Requests::default(), &raw.request);
    let deadline_ns = ns(raw.deadline.as_ref(), "deadline", MS)?.unwrap_or(base.deadline_ns);
    let own = ns(raw.try_timeout.as_ref(), "try_timeout", MS)?;
    if let (Some(own_ns), Some(at)) = (own, &raw.try_timeout)
        && own_ns > deadline_ns
    {
        let message = format!(
            "`try_timeout` {} is above `deadline` {}, after which the caller waits no longer: a try would never time out; lower it, or raise `deadline`",
            duration(own_ns),
            duration(deadline_ns)
        );
        return Err((at.span(), message));
    }
    Ok(Requests {
        size: number(raw.size.as_ref(), "size", SIZES)?.unwrap_or(base.size),
        idempotent: raw.idempotent.map_or(base.idempotent, |flag| flag.0),
        deadline_ns,
        try_timeout_ns: own.unwrap_or(base.try_timeout_ns).min(deadline_ns),
    })
}

fn retry(raw: &raw::Retry) -> Result<Retry, Wrong> {
    let base = Retry::default();
    let first = ns(raw.first.as_ref(), "first", 1)?;
    let cap = ns(raw.cap.as_ref(), "cap", 1)?;
    let first_ns = first.unwrap_or(base.backoff.first_ns.min(cap.unwrap_or(u64::MAX)));
    let cap_ns = cap.unwrap_or(base.backoff.cap_ns.max(first_ns));
    if let Some(at) = &raw.first
        && first_ns > cap_ns
    {
        let message = format!(
            "`first` {} is above `cap` {}: the first wait would be longer than the longest; lower it, or raise `cap`",
            duration(first_ns),
            duration(cap_ns)
        );
        return Err((at.span(), message));
    }
    let jitter = raw.jitter.map_or(base.backoff.jitter, |jitter| match jitter {
        raw::Jitter::None => Jitter::None,
        raw::Jitter::Full => Jitter::Full,
        raw::Jitter::Equal => Jitter::Equal,
        raw::Jitter::Decorrelated => Jitter::Decorrelated,
    });
    let budget = match &raw.budget {
        None => base.budget,
        Some(budget) => budget_rule(budget)?,
    };
    Ok(Retry {
        at_most: number(raw.at_most.as_ref(), "at_most", 1..=MOST_RETRIES)?.unwrap_or(base.at_most),
        backoff: Backoff { first_ns, cap_ns, jitter },
        budget,
    })
}

fn budget_rule(budget: &Spanned<Budget>) -> Result<Option<BudgetRule>, Wrong> {
    let how = "write budget = { share = 0.2, burst = 10 }, { tokens = 10, ratio = 0.1 } as gRPC has it, or \"none\"";
    match budget.get_ref() {
        Budget::None => Ok(None),
        Budget::Table(raw::BudgetTable { share: Some(share), burst, tokens: None, ratio: None }) => {
            let burst = number(burst.as_ref(), "burst", 0..=1_000_000)?.unwrap_or(10);
            let share = share.get_ref().0;
            if share <= 0.0 && burst == 0 {
                let message =
                    "a budget of nothing allows no retry; raise `share` or `burst`, or leave [retry] out";
                return Err((budget.span(), message.to_owned()));
            }
            Ok(Some(BudgetRule::Share { share, burst }))
        }
        Budget::Table(raw::BudgetTable { share: None, burst: None, tokens: Some(tokens), ratio }) => {
            let tokens = number(Some(tokens), "tokens", 1..=1_000)?.unwrap_or(10);
            Ok(Some(BudgetRule::Throttle {
                tokens,
                ratio: ratio.as_ref().map_or(0.1, |ratio| ratio.get_ref().0),
            }))
        }
        Budget::Table(_) => Err((budget.span(), format!("a budget is either a share or tokens; {how}"))),
    }
}

fn age(raw: &File) -> Result<Option<Age>, Wrong> {
    let raw = &raw.connection;
    let at_most = ns(raw.age.as_ref(), "age", S)?;
    let jitter = ns(raw.age_jitter.as_ref(), "age_jitter", 1)?;
    match (at_most, jitter, &raw.age_jitter) {
        (None, Some(_), Some(at)) => Err((
            at.span(),
            "`age_jitter` without `age` does nothing; add age = \"4h\", or leave it out".to_owned(),
        )),
        (Some(at_most_ns), Some(jitter_ns), Some(at)) if jitter_ns >= at_most_ns => {
            let message = format!(
                "`age_jitter` {} is not below `age` {}: connections would be retired as they open; lower it",
                duration(jitter_ns),
                duration(at_most_ns)
            );
            Err((at.span(), message))
        }
        // A tenth, where nobody says: connections that were made together do not end together.
        _ => Ok(at_most.map(|at_most_ns| Age { at_most_ns, jitter_ns: jitter.unwrap_or(at_most_ns / 10) })),
    }
}

fn keepalive(raw: &File, age: Option<Age>) -> Result<Option<u64>, Wrong> {
    let keepalive = ns(raw.connection.keepalive.as_ref(), "keepalive", S)?;
    let (Some(ns), Some(at)) = (keepalive, &raw.connection.keepalive) else { return Ok(None) };
    not_above(Some(at), "keepalive", LONGEST_KEEPALIVE_NS)?;
    if !ns.is_multiple_of(S) {
        return Err((
            at.span(),
            "`keepalive` has whole seconds, as the kernel counts them: write it as in \"30s\"".to_owned(),
        ));
    }
    match age {
        Some(age) if ns >= age.at_most_ns => {
            let message = format!(
                "`keepalive` {} is not below `age` {}: connections end before it is sent; lower it, or leave it out",
                duration(ns),
                duration(age.at_most_ns)
            );
            Err((at.span(), message))
        }
        _ => Ok(Some(ns)),
    }
}

fn pool(raw: &File, age: Option<Age>) -> Result<PoolRule, Wrong> {
    let (base, raw) = (PoolRule::default(), &raw.pool);
    let max = number(raw.max.as_ref(), "max", 1..=MOST_CONNECTIONS)?;
    let min = number(raw.min.as_ref(), "min", 0..=MOST_CONNECTIONS)?;
    let max_or = max.unwrap_or(base.max.max(min.unwrap_or(0)));
    let min_or = min.unwrap_or(base.min.min(max_or));
    if let Some(at) = &raw.min
        && min_or > max_or
    {
        let message = format!("`min` {min_or} is above `max` {max_or}; lower it, or raise `max`");
        return Err((at.span(), message));
    }
    let wait_ns = ns(raw.wait.as_ref(), "wait", MS)?.unwrap_or(base.wait_ns);
    let idle_ns = ns(raw.idle.as_ref(), "idle", MS)?;
    if let (Some(idle_ns), Some(at), Some(age)) = (idle_ns, &raw.idle, age)
        && idle_ns >= age.at_most_ns
    {
        let message = format!(
            "`idle` {} is not below `age` {}: no connection becomes so old; lower it, or leave it out",
            duration(idle_ns),
            duration(age.at_most_ns)
        );
        return Err((at.span(), message));
    }
    // 0: before every use.
    let validate_after_ns = raw.validate_after.as_ref().map(|time| time.get_ref().0);
    let check_every_ns = ns(raw.check_every.as_ref(), "check_every", MS)?;
    let validation = ns(raw.validation_timeout.as_ref(), "validation_timeout", MS)?;
    if let (Some(validation_ns), Some(at)) = (validation, &raw.validation_timeout) {
        if validation_ns > wait_ns {
            let message = format!(
                "`validation_timeout` {} is above the pool's `wait` {}: who waits for a connection that is being validated has given up before; lower it, or raise `wait`",
                duration(validation_ns),
                duration(wait_ns)
            );
            return Err((at.span(), message));
        }
        if validate_after_ns.is_none() && check_every_ns.is_none() {
            let message = "`validation_timeout` does nothing where nothing is validated; add validate_after = \"1s\" or check_every = \"30s\", or leave it out";
            return Err((at.span(), message.to_owned()));
        }
    }
    let order = raw.order.map_or(base.order, |order| match order {
        raw::Order::Fifo => Order::Fifo,
        raw::Order::Lifo => Order::Lifo,
    });
    let validation_timeout_ns = validation.unwrap_or(base.validation_timeout_ns.min(wait_ns));
    Ok(PoolRule {
        min: min_or,
        max: max_or,
        wait_ns,
        order,
        idle_ns,
        validate_after_ns,
        check_every_ns,
        validation_timeout_ns,
    })
}

fn fallback(raw: &Spanned<raw::Table<raw::Fallback>>) -> Result<Fallback, Wrong> {
    match &**raw.get_ref() {
        raw::Fallback { target: Some(target), last_answer: None } if !target.trim().is_empty() => {
            Ok(Fallback::Target(target.trim().to_owned()))
        }
        raw::Fallback { target: None, last_answer: Some(time) } => {
            Ok(Fallback::LastAnswer(ns(Some(time), "last_answer", MS)?.unwrap_or(0)))
        }
        _ => {
            let message = "a fallback is one of two: write target = \"HOST:PORT\", or last_answer = \"5m\" for an answer no older than that";
            Err((raw.span(), message.to_owned()))
        }
    }
}
