//! The keys of POLICY.toml, as they stand there.

use crate::units::duration_ns;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use std::fmt;
use toml::Spanned;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct File {
    pub(super) request: Request,
    pub(super) retry: Option<Retry>,
    pub(super) connection: Connection,
    pub(super) pool: Pool,
    pub(super) breaker: Option<Breaker>,
    pub(super) fallback: Option<Spanned<Fallback>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Request {
    pub(super) size: Option<Spanned<i64>>,
    pub(super) idempotent: Option<bool>,
    pub(super) deadline: Option<Spanned<Time>>,
    pub(super) try_timeout: Option<Spanned<Time>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Retry {
    pub(super) at_most: Option<Spanned<i64>>,
    pub(super) first: Option<Spanned<Time>>,
    pub(super) cap: Option<Spanned<Time>>,
    pub(super) jitter: Option<Jitter>,
    pub(super) budget: Option<Spanned<Budget>>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Jitter {
    None,
    Full,
    Equal,
    Decorrelated,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Order {
    Fifo,
    Lifo,
}

#[derive(Debug)]
pub(super) enum Budget {
    None,
    Table(BudgetTable),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct BudgetTable {
    pub(super) share: Option<Spanned<Share>>,
    pub(super) burst: Option<Spanned<i64>>,
    pub(super) tokens: Option<Spanned<i64>>,
    pub(super) ratio: Option<Spanned<Share>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Connection {
    pub(super) connect_timeout: Option<Spanned<Time>>,
    pub(super) keepalive: Option<Spanned<Time>>,
    pub(super) user_timeout: Option<Spanned<Time>>,
    pub(super) age: Option<Spanned<Time>>,
    pub(super) age_jitter: Option<Spanned<Time>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Pool {
    pub(super) min: Option<Spanned<i64>>,
    pub(super) max: Option<Spanned<i64>>,
    pub(super) wait: Option<Spanned<Time>>,
    pub(super) order: Option<Order>,
    pub(super) idle: Option<Spanned<Time>>,
    pub(super) validate_after: Option<Spanned<Time>>,
    pub(super) check_every: Option<Spanned<Time>>,
    pub(super) validation_timeout: Option<Spanned<Time>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Breaker {
    pub(super) window: Option<Spanned<Window>>,
    pub(super) least: Option<Spanned<i64>>,
    pub(super) failures: Option<Spanned<Share>>,
    pub(super) open: Option<Spanned<Time>>,
    pub(super) trials: Option<Spanned<i64>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Fallback {
    pub(super) target: Option<String>,
    pub(super) last_answer: Option<Spanned<Time>>,
}

/// A duration as people write it, in ns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Time(pub(super) u64);

/// A part of a whole: 0.2, or "20%".
#[derive(Debug, Clone, Copy)]
pub(super) struct Share(pub(super) f64);

/// So many, or as long.
#[derive(Debug, Clone, Copy)]
pub(super) enum Window {
    Count(i64),
    Time(u64),
}

struct Reads<F, G, H>(&'static str, F, G, H);

impl<T, F, G, H> Visitor<'_> for Reads<F, G, H>
where
    F: FnOnce(&str) -> Result<T, String>,
    G: FnOnce(i64) -> Option<T>,
    H: FnOnce(f64) -> Option<T>,
{
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.1)(text).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, n: i64) -> Result<T, E> {
        let expected = self.0;
        (self.2)(n).ok_or_else(|| E::custom(format!("{n} is none of what may stand here: write {expected}")))
    }

    fn visit_f64<E: Error>(self, n: f64) -> Result<T, E> {
        let expected = self.0;
        (self.3)(n).ok_or_else(|| E::custom(format!("{n} is none of what may stand here: write {expected}")))
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let read = |text: &str| duration_ns(text).map(Self).map_err(|e| e.to_string());
        let zero = |n: i64| (n == 0).then_some(Self(0));
        from.deserialize_any(Reads("a duration with its unit, as in \"250ms\" or \"4h\"", read, zero, |_| {
            None
        }))
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let within = |share: f64| (0.0..=1.0).contains(&share).then_some(Self(share));
        let read = |text: &str| {
            let percent = text.trim().strip_suffix('%').and_then(|n| n.trim().parse::<f64>().ok());
            let share = percent.and_then(|n| within(n / 100.0));
            share.ok_or_else(|| format!("{text:?} is no share: write it as in 0.2 or \"20%\""))
        };
        from.deserialize_any(Reads(
            "a share from 0 to 1, as in 0.2 or \"20%\"",
            read,
            |n| within(n as f64),
            within,
        ))
    }
}

impl<'de> Deserialize<'de> for Window {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let read = |text: &str| duration_ns(text).map(Self::Time).map_err(|e| e.to_string());
        let expected = "a number of tries, as in 100, or a duration, as in \"30s\"";
        from.deserialize_any(Reads(expected, read, |n| Some(Self::Count(n)), |_| None))
    }
}

impl<'de> Deserialize<'de> for Budget {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Budget;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table, as in { share = 0.2, burst = 10 }, or \"none\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Budget, E> {
                if text == "none" {
                    Ok(Budget::None)
                } else {
                    Err(E::invalid_value(serde::de::Unexpected::Str(text), &self))
                }
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Budget, A::Error> {
                BudgetTable::deserialize(serde::de::value::MapAccessDeserializer::new(map)).map(Budget::Table)
            }
        }
        from.deserialize_any(Either)
    }
}
