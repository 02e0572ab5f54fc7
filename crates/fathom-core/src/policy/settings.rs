//! What a policy says, as data. Durations in ns. [`Policy::parse`] reads it from a file, and only what it accepts is sound.

use serde::Serialize;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

/// A whole policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Policy {
    /// What a request is, and how long the caller waits for it.
    pub requests: Requests,
    /// What becomes of a try that failed. `None`: nothing is tried again.
    pub retry: Option<Retry>,
    /// How long a connection may take to be made.
    pub connect_timeout_ns: u64,
    /// How often the kernel asks on an idle connection (TCP keepalive). `None`: it does not.
    pub keepalive_ns: Option<u64>,
    /// How long data may stay unacknowledged before the kernel gives the connection up (`TCP_USER_TIMEOUT`). `None`: the
    /// system's default.
    pub user_timeout_ns: Option<u64>,
    /// How old a connection may become. `None`: as old as it likes.
    pub age: Option<Age>,
    /// How many connections are kept, and which is taken.
    pub pool: PoolRule,
    /// When nothing is tried any more. `None`: never.
    pub breaker: Option<BreakerRule>,
    /// How the first target is asked, while the breaker is open, whether it is back. `None`: it is not.
    pub recovery: Option<RecoveryRule>,
    /// What serves a request that would have failed. `None`: nothing.
    pub fallback: Option<Fallback>,
}

/// The requests of an application.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Requests {
    /// Payload bytes each way.
    pub size: u32,
    /// To do it twice is as good as to do it once. Only then is one that was sent and not answered sent again.
    pub idempotent: bool,
    /// How long the caller waits in all, from when the request was due.
    pub deadline_ns: u64,
    /// How long one try waits for its answer, from its sending.
    pub try_timeout_ns: u64,
}

/// Trying again.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Retry {
    /// Tries of one request after its first.
    pub at_most: u32,
    /// How long before each.
    pub backoff: Backoff,
    /// How many of all requests. `None`: any number.
    pub budget: Option<BudgetRule>,
}

/// Waits that grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Backoff {
    /// The first.
    pub first_ns: u64,
    /// None is longer.
    pub cap_ns: u64,
    /// How they are spread.
    pub jitter: Jitter,
}

/// How the waits of several clients are kept apart (Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015).
/// With `ceiling = min(cap, first * 2^n)` for the n-th retry from 0, a wait is uniform between:
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Jitter {
    /// `ceiling` and `ceiling`.
    None,
    /// 0 and `ceiling`.
    Full,
    /// `ceiling / 2` and `ceiling`.
    Equal,
    /// `first` and three times the wait before, and never above `cap`.
    Decorrelated,
}

/// How many retries all requests together may have.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetRule {
    /// Each request that is due puts `share` of a token into a bucket that begins full and holds `burst`; a retry takes one
    /// (as Finagle's `RetryBudget` and tower's `TpsBudget` count, whose tokens expire instead). So retries are never more
    /// than `burst + share * requests`, over any span.
    Share {
        /// Retries for each request, on average, at the most.
        share: f64,
        /// Retries beyond that, at one time.
        burst: u32,
    },
    /// The bucket begins with `tokens`, a failed try takes one and an answer gives `ratio` back; nothing is retried unless
    /// more than half is left (gRPC's retry throttling, gRFC A6: `maxTokens`, `tokenRatio`).
    Throttle {
        /// How many it holds.
        tokens: u32,
        /// What an answer gives back.
        ratio: f64,
    },
}

/// A maximum age. Each connection draws its own, between `at_most - jitter` and `at_most`, so that connections that were
/// made together do not end together (`HikariCP`'s `maxLifetime` is varied downwards in the same way).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Age {
    /// No request is sent on a connection that is older.
    pub at_most_ns: u64,
    /// How much younger it may be retired.
    pub jitter_ns: u64,
}

/// A pool of connections. Each carries one request at a time, as a database's do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PoolRule {
    /// Kept open even if nothing is asked.
    pub min: u32,
    /// Open at one time, those that are being opened too.
    pub max: u32,
    /// How long a try waits for a connection.
    pub wait_ns: u64,
    /// Which of several idle connections is taken.
    pub order: Order,
    /// An idle connection beyond `min` is closed after so long. `None`: never.
    pub idle_ns: Option<u64>,
    /// A connection that was idle for so long is asked before it is given to a request. `None`: never.
    pub validate_after_ns: Option<u64>,
    /// How often an idle connection is asked though nobody wants it. `None`: never.
    pub check_every_ns: Option<u64>,
    /// How long the answer to either may take; then the connection is closed.
    pub validation_timeout_ns: u64,
}

/// Which idle connection is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// The one that was idle for longest: all are used in turn.
    Fifo,
    /// The one that was used last: those that are not needed become idle and go.
    Lifo,
}

/// A circuit breaker (Nygard, "Release It!", 2007; the windows and words are those of resilience4j).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BreakerRule {
    /// Which tries are looked at.
    pub window: Window,
    /// It does not open before so many are in the window.
    pub least: u32,
    /// It opens when at least this share of them failed.
    pub failures: f64,
    /// For how long it stays open.
    pub open_ns: u64,
    /// How many are let through then, to see whether it may close.
    pub trials: u32,
}

/// The tries that a breaker looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    /// The last so many.
    Count(u32),
    /// Those that ended within so long.
    Ns(u64),
}

/// A recovery monitor: while the breaker is open, the first target is asked on a connection of its own whether it is back
/// (`HAProxy`'s `inter`, `rise` and `timeout check` are the like).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RecoveryRule {
    /// From the end of one check to the next.
    pub every_ns: u64,
    /// So many checks in a row are answered before requests are let through again.
    pub after: u32,
    /// How long a check may take, from the beginning of its connection to its answer.
    pub timeout_ns: u64,
}

/// What serves a request that would have failed, or would have been shed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fallback {
    /// A second server, asked once.
    Target(String),
    /// The last answer, if it is no older than this, in ns.
    LastAnswer(u64),
}

impl Default for Policy {
    /// What holds where a file says nothing: one try, no pool to speak of, no help.
    fn default() -> Self {
        Self {
            requests: Requests::default(),
            retry: None,
            connect_timeout_ns: 3 * S,
            keepalive_ns: None,
            user_timeout_ns: None,
            age: None,
            pool: PoolRule::default(),
            breaker: None,
            recovery: None,
            fallback: None,
        }
    }
}

impl Default for Requests {
    fn default() -> Self {
        Self { size: 64, idempotent: false, deadline_ns: 10 * S, try_timeout_ns: 5 * S }
    }
}

impl Default for Retry {
    fn default() -> Self {
        let backoff = Backoff { first_ns: 100 * MS, cap_ns: 2 * S, jitter: Jitter::Full };
        Self { at_most: 2, backoff, budget: Some(BudgetRule::Share { share: 0.2, burst: 10 }) }
    }
}

impl Default for PoolRule {
    fn default() -> Self {
        Self {
            min: 1,
            max: 10,
            wait_ns: 3 * S,
            order: Order::Lifo,
            idle_ns: None,
            validate_after_ns: None,
            check_every_ns: None,
            validation_timeout_ns: S,
        }
    }
}

impl Default for BreakerRule {
    /// resilience4j's: of the last 100, half.
    fn default() -> Self {
        Self { window: Window::Count(100), least: 100, failures: 0.5, open_ns: 60 * S, trials: 10 }
    }
}

impl Default for RecoveryRule {
    /// `HAProxy`'s: every 2 s, and twice in a row.
    fn default() -> Self {
        Self { every_ns: 2 * S, after: 2, timeout_ns: S }
    }
}
