//! Reading a TOML table key by key, so that every mistake is told with its place: a value of the wrong kind, a key
//! that is missing, and, when all known keys were taken, the keys that are left.

use std::fmt::Display;
use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ScenarioError, Source};

/// A value with its key and place.
#[derive(Debug)]
pub(super) struct Value<'a> {
    source: Source<'a>,
    /// As it is called in messages: "`delay` of path \"x\"".
    what: String,
    span: Range<usize>,
    inner: DeValue<'a>,
}

/// What was read, with the place it was read at, for checks that come later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) span: Range<usize>,
}

/// The place of a value that has been taken apart.
#[derive(Debug)]
pub(super) struct Place<'a> {
    source: Source<'a>,
    what: String,
    span: Range<usize>,
}

impl Place<'_> {
    pub(super) fn error(&self, message: impl Display) -> ScenarioError {
        self.source.error(&self.span, format!("{} {message}", self.what))
    }
}

impl<'a> Value<'a> {
    pub(super) fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    pub(super) fn error(&self, message: impl Display) -> ScenarioError {
        self.source.error(&self.span, format!("{} {message}", self.what))
    }

    fn wants(&self, kind: &str) -> ScenarioError {
        self.error(format_args!("must be {kind}, not {}", article(self.inner.type_str())))
    }

    pub(super) fn text(&self) -> Result<At<String>, ScenarioError> {
        match &self.inner {
            DeValue::String(text) => Ok(At { value: text.clone().into_owned(), span: self.span() }),
            _ => Err(self.wants("text in quotes")),
        }
    }

    /// Text that a function understands; its error becomes the message.
    pub(super) fn parsed<T, E: Display>(
        &self,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Result<T, ScenarioError> {
        match &self.inner {
            DeValue::String(text) => parse(text).map_err(|e| self.error(format_args!("cannot be read: {e}"))),
            _ => Err(self.wants("text in quotes")),
        }
    }

    pub(super) fn duration_ns(&self) -> Result<u64, ScenarioError> {
        match &self.inner {
            DeValue::Integer(n) if n.as_str() == "0" => Ok(0),
            DeValue::String(_) => self.parsed(fathom_core::units::duration_ns),
            _ => Err(self.wants("a duration in quotes, as in \"250us\"")),
        }
    }

    pub(super) fn signed_duration_ns(&self) -> Result<i64, ScenarioError> {
        match &self.inner {
            DeValue::String(_) => self.parsed(fathom_core::units::signed_duration_ns),
            _ => Err(self.wants("a duration in quotes, as in \"-250us\"")),
        }
    }

    pub(super) fn integer(&self) -> Result<u64, ScenarioError> {
        match &self.inner {
            DeValue::Integer(n) => u64::from_str_radix(n.as_str(), n.radix())
                .map_err(|_| self.error(format_args!("must be a whole number from 0 on, not {n}"))),
            _ => Err(self.wants("a whole number")),
        }
    }

    /// A size: `1500`, or text such as `"1MiB"`.
    pub(super) fn size(&self) -> Result<u64, ScenarioError> {
        match &self.inner {
            DeValue::Integer(_) => self.integer(),
            _ => self.parsed(fathom_core::units::size),
        }
    }

    pub(super) fn number(&self) -> Result<f64, ScenarioError> {
        let text = match &self.inner {
            DeValue::Integer(n) => n.as_str().to_owned(),
            DeValue::Float(n) => n.as_str().to_owned(),
            _ => return Err(self.wants("a number")),
        };
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => Err(self.error("must be a finite number")),
        }
    }

    /// A share: `0.01`, or text such as `"1 %"`.
    pub(super) fn share(&self) -> Result<f64, ScenarioError> {
        let share = match &self.inner {
            DeValue::String(_) => self.parsed(|text| -> Result<f64, String> {
                let number = text.trim().strip_suffix('%').ok_or("write it as in 0.01 or \"1%\"")?;
                number.trim().parse::<f64>().map(|p| p / 100.0).map_err(|e| e.to_string())
            })?,
            _ => self.number()?,
        };
        if (0.0..=1.0).contains(&share) {
            Ok(share)
        } else {
            Err(self.error("must lie between 0 and 1, that is 0 % and 100 %"))
        }
    }

    pub(super) fn boolean(&self) -> Result<bool, ScenarioError> {
        match &self.inner {
            DeValue::Boolean(b) => Ok(*b),
            _ => Err(self.wants("true or false")),
        }
    }

    pub(super) fn list(self) -> Result<Vec<Value<'a>>, ScenarioError> {
        match self.inner {
            DeValue::Array(items) => Ok(items
                .into_iter()
                .map(|item| Value {
                    source: self.source,
                    what: format!("an entry of {}", self.what),
                    span: item.span(),
                    inner: item.into_inner(),
                })
                .collect()),
            _ => Err(self.wants("a list in brackets")),
        }
    }

    pub(super) fn is_text(&self) -> bool {
        matches!(self.inner, DeValue::String(_))
    }

    /// Where it stands and what it is called, to outlive it.
    pub(super) fn place(&self) -> Place<'a> {
        Place { source: self.source, what: self.what.clone(), span: self.span.clone() }
    }

    pub(super) fn is_table(&self) -> bool {
        matches!(self.inner, DeValue::Table(_))
    }

    pub(super) fn table(self) -> Result<Table<'a>, ScenarioError> {
        match self.inner {
            DeValue::Table(table) => Ok(Table::new(self.source, self.what, self.span, table)),
            _ => Err(self.wants("a table in braces")),
        }
    }

    /// A date and time with its offset, as TOML writes it without quotes.
    pub(super) fn datetime(&self) -> Result<jiff::Timestamp, ScenarioError> {
        match &self.inner {
            DeValue::Datetime(at) => at.to_string().parse().map_err(|_| {
                self.error(format_args!(
                    "must be a moment with its offset, as in 2025-03-19T22:49:12Z, not {at}"
                ))
            }),
            _ => Err(self.wants("a date and time without quotes, as in 2025-03-19T22:49:12Z")),
        }
    }
}

/// "a string", "an integer".
fn article(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {kind}")
}

/// A table whose keys are taken one by one.
#[derive(Debug)]
pub(super) struct Table<'a> {
    pub(super) source: Source<'a>,
    /// As it is called in messages: "path \"x\"".
    pub(super) what: String,
    pub(super) span: Range<usize>,
    left: Vec<(Spanned<String>, Spanned<DeValue<'a>>)>,
    known: Vec<&'static str>,
}

impl<'a> Table<'a> {
    pub(super) fn new(source: Source<'a>, what: String, span: Range<usize>, table: DeTable<'a>) -> Self {
        let mut left: Vec<_> = table
            .into_iter()
            .map(|(key, value)| (Spanned::new(key.span(), key.into_inner().into_owned()), value))
            .collect();
        left.sort_by_key(|(key, _)| key.span().start);
        Self { source, what, span, left, known: Vec::new() }
    }

    /// Renames the table in messages, once its own name is known.
    pub(super) fn call(&mut self, what: String) {
        self.what = what;
    }

    pub(super) fn error(&self, message: impl Display) -> ScenarioError {
        self.source.error(&self.span, format!("{} {message}", self.what))
    }

    pub(super) fn take(&mut self, key: &'static str) -> Option<Value<'a>> {
        self.known.push(key);
        let at = self.left.iter().position(|(name, _)| name.get_ref() == key)?;
        let (_, value) = self.left.remove(at);
        Some(Value {
            source: self.source,
            what: format!("`{key}` of {}", self.what),
            span: value.span(),
            inner: value.into_inner(),
        })
    }

    pub(super) fn require(&mut self, key: &'static str, example: &str) -> Result<Value<'a>, ScenarioError> {
        self.take(key).ok_or_else(|| self.error(format_args!("has no `{key}`; add {key} = {example}")))
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.left.iter().any(|(name, _)| name.get_ref() == key)
    }

    /// The keys that have not been taken.
    pub(super) fn keys(&self) -> Vec<At<String>> {
        self.left.iter().map(|(key, _)| At { value: key.get_ref().clone(), span: key.span() }).collect()
    }

    /// Every key with its value, for tables whose keys are free (tags).
    pub(super) fn rest(mut self) -> Vec<(String, Value<'a>)> {
        std::mem::take(&mut self.left)
            .into_iter()
            .map(|(key, value)| {
                let what = format!("`{}` of {}", key.get_ref(), self.what);
                let (span, source) = (value.span(), self.source);
                (key.into_inner(), Value { source, what, span, inner: value.into_inner() })
            })
            .collect()
    }

    /// What is left, as a type that serde knows; with `extra` keys added as text.
    pub(super) fn serde<T: DeserializeOwned>(self, extra: &[(&str, &str)]) -> Result<T, ScenarioError> {
        let mut table = DeTable::new();
        for (key, value) in self.left {
            let span = key.span();
            table.insert(Spanned::new(span, key.into_inner().into()), value);
        }
        for (key, value) in extra {
            let (key, value) = ((*key).to_owned(), (*value).to_owned());
            table.insert(
                Spanned::new(self.span.clone(), key.into()),
                Spanned::new(self.span.clone(), DeValue::String(value.into())),
            );
        }
        let value = Spanned::new(self.span.clone(), DeValue::Table(table));
        T::deserialize(toml::de::ValueDeserializer::from(value)).map_err(|e| {
            let mut error = self.source.foreign(&e, &self.span);
            error.message = format!("{}: {}", self.what, error.message);
            error
        })
    }

    /// Every key must have been taken.
    pub(super) fn finish(self) -> Result<(), ScenarioError> {
        let Some((key, _)) = self.left.first() else { return Ok(()) };
        let name = key.get_ref();
        let near = self
            .known
            .iter()
            .map(|known| (strsim::jaro_winkler(name, known), known))
            .filter(|(similarity, _)| *similarity > 0.8)
            .max_by(|a, b| a.0.total_cmp(&b.0));
        let remedy = match near {
            Some((_, known)) => format!("did you mean `{known}`?"),
            None => format!("it knows {}", quoted(&self.known)),
        };
        Err(self.source.error(&key.span(), format!("unknown key `{name}` in {}; {remedy}", self.what)))
    }
}

/// "`a`, `b`, `c`".
pub(super) fn quoted<T: Display>(names: impl IntoIterator<Item = T>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// "names no host \"x\"; did you mean `y`?"
pub(super) fn unknown<'a>(
    kind: &str,
    name: &str,
    known: impl Iterator<Item = &'a String>,
    remedy: &str,
) -> String {
    let known: Vec<&String> = known.collect();
    let near = known
        .iter()
        .map(|k| (strsim::jaro_winkler(name, k), k))
        .filter(|(similarity, _)| *similarity > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match near {
        Some((_, near)) => format!("must name {kind}, and there is no \"{name}\"; did you mean \"{near}\"?"),
        None if known.is_empty() || known.len() > 12 => {
            format!("must name {kind}, and there is no \"{name}\"; {remedy}")
        }
        None => {
            format!("must name {kind}, and there is no \"{name}\" (there are {}); {remedy}", quoted(known))
        }
    }
}
