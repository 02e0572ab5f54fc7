//! The keys of POLICY.toml, as they stand there.

use crate::units::duration_ns;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use toml::Spanned;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct File {
    pub(super) request: Table<Request>,
    pub(super) retry: Option<Table<Retry>>,
    pub(super) connection: Table<Connection>,
    pub(super) pool: Table<Pool>,
    pub(super) breaker: Option<Table<Breaker>>,
    pub(super) recovery: Option<Spanned<Table<Recovery>>>,
    pub(super) fallback: Option<Spanned<Table<Fallback>>>,
}

/// A table of keys, and nothing else: a list would be taken for the values of the first few keys.
#[derive(Debug, Default)]
pub(super) struct Table<T>(T);

impl<T> Deref for Table<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Table<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Keys<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Keys<T> {
            type Value = Table<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of keys, as [pool] begins one")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Table<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Table)
            }
        }
        from.deserialize_any(Keys(PhantomData))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Request {
    pub(super) size: Option<Spanned<Whole>>,
    pub(super) idempotent: Option<Flag>,
    pub(super) deadline: Option<Spanned<Time>>,
    pub(super) try_timeout: Option<Spanned<Time>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Retry {
    pub(super) at_most: Option<Spanned<Whole>>,
    pub(super) first: Option<Spanned<Time>>,
    pub(super) cap: Option<Spanned<Time>>,
    pub(super) jitter: Option<Jitter>,
    pub(super) budget: Option<Spanned<Budget>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Jitter {
    None,
    Full,
    Equal,
    Decorrelated,
}

#[derive(Debug, Clone, Copy)]
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
    pub(super) burst: Option<Spanned<Whole>>,
    pub(super) tokens: Option<Spanned<Whole>>,
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
    pub(super) min: Option<Spanned<Whole>>,
    pub(super) max: Option<Spanned<Whole>>,
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
    pub(super) least: Option<Spanned<Whole>>,
    pub(super) failures: Option<Spanned<Share>>,
    pub(super) open: Option<Spanned<Time>>,
    pub(super) trials: Option<Spanned<Whole>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Recovery {
    pub(super) every: Option<Spanned<Time>>,
    pub(super) after: Option<Spanned<Whole>>,
    pub(super) timeout: Option<Spanned<Time>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Fallback {
    pub(super) target: Option<String>,
    pub(super) last_answer: Option<Spanned<Time>>,
}

/// A whole number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Whole(pub(super) i64);

/// Yes or no.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flag(pub(super) bool);

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

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = |text: &str| Err(format!("{text:?} is text: write a whole number, as in 10"));
        from.deserialize_any(Reads("a whole number, as in 10", text, |n| Some(Self(n)), |_| None))
    }
}

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Flag;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true or false, without quotes")
            }

            fn visit_bool<E: Error>(self, is: bool) -> Result<Flag, E> {
                Ok(Flag(is))
            }
        }
        from.deserialize_any(Either)
    }
}

/// One of a few words.
fn word<'de, D: Deserializer<'de>, T: Copy>(
    from: D,
    expected: &'static str,
    words: &[(&str, T)],
) -> Result<T, D::Error> {
    let read = |text: &str| {
        let known = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        known.ok_or_else(|| format!("{text:?} is no word that may stand here: write {expected}"))
    };
    from.deserialize_any(Reads(expected, read, |_| None, |_| None))
}

impl<'de> Deserialize<'de> for Jitter {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let words = [
            ("none", Self::None),
            ("full", Self::Full),
            ("equal", Self::Equal),
            ("decorrelated", Self::Decorrelated),
        ];
        word(from, "\"none\", \"full\", \"equal\" or \"decorrelated\"", &words)
    }
}

impl<'de> Deserialize<'de> for Order {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        word(from, "\"fifo\" or \"lifo\"", &[("fifo", Self::Fifo), ("lifo", Self::Lifo)])
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

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Budget, A::Error> {
                BudgetTable::deserialize(MapAccessDeserializer::new(map)).map(Budget::Table)
            }
        }
        from.deserialize_any(Either)
    }
}
