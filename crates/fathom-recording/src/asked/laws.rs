//! What each row of `queries-*.parquet` must keep, and what they come to. The laws stand in `schema/recording.md`, "Queries"; every
//! check of a recording comes here.

use super::files::{Files, query};
use crate::damage::Damage;
use crate::queries::{ROWS, name};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch};
use fathom_core::query::{Asked, Connection, Outcome};
use std::collections::{BTreeMap, HashMap};

/// The only flag: the first of its connection or setting.
const FLAGS: i64 = 1;
/// A moment is reckoned from a reading of the clocks up to a minute before, and they may drift apart by 600 ppm meanwhile.
const DATES_WITHIN_NS: i64 = 1_000_000_000;

/// What the files of a recording say.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub(crate) rows: Rows,
    /// Of these rows, as a run makes it of its queries.
    pub(crate) outcome: Outcome,
    /// What cannot be read.
    pub(crate) damage: Vec<Damage>,
}

/// How many rows there are, and how many are missing between them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rows {
    pub(crate) read: u64,
    pub(crate) missing: u64,
    /// When the last was over, ns since the Unix epoch.
    pub(crate) over_ns: Option<i64>,
    /// Of each connection that has any.
    pub(crate) each: BTreeMap<u64, OfConnection>,
}

/// The rows of a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OfConnection {
    pub(crate) read: u64,
    /// Without a whole answer.
    pub(crate) failed: u64,
    /// Of the answers.
    pub(crate) rows: u64,
    /// When the latest was over, ns since the Unix epoch.
    over_ns: i64,
}

/// What the rows of a recording are held against.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Run {
    /// How many connections asked side by side.
    pub(crate) connections: u64,
    /// How many settings were asked in turn; 0: there was no sweep.
    pub(crate) settings: u64,
    /// How far the wall clock may have gone back between a query and the next, in ns; `None`: nobody knows.
    pub(crate) back_ns: Option<i64>,
    /// When it began and ended, by the wall clock, ns since the Unix epoch; `None`: nobody knows.
    pub(crate) began_ns: Option<i64>,
    pub(crate) ended_ns: Option<i64>,
}

/// Reads all rows; `broken` is told of each case of a law that is broken: the file, the law, and which query.
pub(crate) fn check(
    files: &Files,
    run: Run,
    mut broken: impl FnMut(String, &'static str, String),
) -> Checked {
    let connections = match run.connections {
        0 | 1 => Vec::new(),
        several => vec![Connection::default(); several as usize],
    };
    let mut rows = Rows::default();
    let mut outcome = Outcome::new(Asked { connections, ..Asked::default() });
    // Of the file at hand: which, and its rows so far.
    let (mut at, mut in_it) = (None, 0);
    let damage = files.each_batch(|ordinal, batch| {
        if at != Some(ordinal) {
            if let Some(before) = at.filter(|_| in_it != ROWS) {
                let law = "a file that another follows has 4096 queries";
                broken(name(before), law, format!("it has {in_it}"));
            }
            (at, in_it) = (Some(ordinal), 0);
        }
        in_it += batch.num_rows();
        let columns = Columns::of(batch);
        for row in 0..batch.num_rows() {
            let at = Row { columns: &columns, row };
            let number = at.number("query").unwrap_or(0);
            let mut law = |law, holds: bool| {
                if !holds {
                    broken(name(ordinal), law, format!("query {number}"));
                }
            };
            check_alone(&at, &mut law);
            if check_in_order(&at, &mut rows, run, &mut law).is_some()
                && let Some(query) = query(batch, row)
            {
                outcome.add(&query);
            }
        }
        Ok(())
    });
    Checked { rows, outcome, damage }
}

/// The columns of a batch, by name: it is asked for each of them in every row.
struct Columns<'a> {
    numbers: HashMap<&'a str, &'a Int64Array>,
    texts: HashMap<&'a str, &'a ArrayRef>,
}

impl<'a> Columns<'a> {
    fn of(batch: &'a RecordBatch) -> Self {
        let names = batch.schema_ref().fields().iter().map(|field| field.name().as_str());
        let (mut numbers, mut texts) = (HashMap::new(), HashMap::new());
        for (name, column) in names.zip(batch.columns()) {
            match column.as_primitive_opt::<Int64Type>() {
                Some(column) => drop(numbers.insert(name, column)),
                None => drop(texts.insert(name, column)),
            }
        }
        Self { numbers, texts }
    }
}

struct Row<'a> {
    columns: &'a Columns<'a>,
    row: usize,
}

impl Row<'_> {
    /// `None`: it is absent.
    fn number(&self, name: &str) -> Option<i64> {
        let column = self.columns.numbers.get(name)?;
        (!column.is_null(self.row)).then(|| column.value(self.row))
    }

    fn has_text(&self, name: &str) -> bool {
        self.columns.texts.get(name).is_some_and(|column| !column.is_null(self.row))
    }

    fn is_negative(&self) -> bool {
        let others = self.columns.numbers.iter().filter(|(name, _)| **name != "started_ns");
        others.into_iter().any(|(_, column)| !column.is_null(self.row) && column.value(self.row) < 0)
    }
}

/// What a row must be, whatever the others are.
fn check_alone(row: &Row<'_>, law: &mut impl FnMut(&'static str, bool)) {
    let value = |name: &str| row.number(name);
    law("no number of a query is negative, but the moment it began", !row.is_negative());
    law("only known flags are set", value("flags").is_none_or(|flags| flags & !FLAGS == 0));

    let estimates = ["server_ns", "path_ns", "client_ns"].map(value);
    let lows = ["server_low_ns", "path_low_ns", "client_low_ns"].map(value);
    let highs = ["server_high_ns", "path_high_ns", "client_high_ns"].map(value);
    let wall = value("wall_ns").unwrap_or(0);
    let has_split = !row.has_text("no_split");
    law("a query has a split, or a reason why not", estimates.iter().all(|part| part.is_some() == has_split));
    // Somebody else's numbers: their sum may be beyond 64 bits.
    let sum = |of: [Option<i64>; 3]| of.iter().flatten().map(|&ns| i128::from(ns)).sum::<i128>();
    law("server, path and client sum to the wall time", !has_split || sum(estimates) == i128::from(wall));
    let within = (0..3).all(|i| {
        let (low, high) = (lows[i].unwrap_or(0), highs[i].unwrap_or(0));
        let estimate = estimates[i].unwrap_or(low);
        0 <= low && low <= estimate && estimate <= high && high <= wall
    });
    law("each part lies within its bounds, and those within 0 and the wall time", within);
    law(
        "the wall time lies between the sums of the bounds",
        (sum(lows)..=sum(highs)).contains(&i128::from(wall)),
    );

    let first = value("first_row_ns");
    law("the first row comes before the last", first.is_none_or(|first| (0..=wall).contains(&first)));
    let rest = first.and_then(|first| wall.checked_sub(first));
    law("transfer_ns is what follows the first row", value("transfer_ns") == rest);
    law("a query has a first row exactly where it has rows", first.is_some() == (value("rows") > Some(0)));
    law("a query that was answered took a turn", row.has_text("error") || value("turns") > Some(0));
}

/// What a row must be beside those before it and the run; `None`: it is of none of its connections.
fn check_in_order(
    row: &Row<'_>,
    rows: &mut Rows,
    run: Run,
    law: &mut impl FnMut(&'static str, bool),
) -> Option<()> {
    let value = |name: &str| row.number(name);
    let number = u64::try_from(value("query")?).unwrap_or(0);
    let next = rows.read + rows.missing;
    law("queries are numbered upwards from 0", number >= next);
    rows.missing += number.saturating_sub(next);
    rows.read += 1;

    let (started, wall) = (value("started_ns")?, value("wall_ns")?);
    let over = started.saturating_add(wall);
    rows.over_ns = rows.over_ns.max(Some(over));
    let back_ns = run.back_ns;
    let within = back_ns.map(|back| back.saturating_add(DATES_WITHIN_NS));
    let is_early = run.began_ns.zip(within).is_some_and(|(began, ns)| started < began.saturating_sub(ns));
    let is_late = run.ended_ns.zip(within).is_some_and(|(ended, ns)| over > ended.saturating_add(ns));
    law("a query is asked between the beginning and the end of the run", !is_early && !is_late);

    let setting = value("setting").map(u64::try_from);
    let is_known = setting.is_none_or(|setting| setting.is_ok_and(|setting| setting < run.settings));
    law("a query is of one of the run's settings", is_known);
    let connection = u64::try_from(value("connection").unwrap_or(0)).ok();
    let connection = connection.filter(|connection| *connection < run.connections);
    law("a query is of one of the run's connections", connection.is_some());
    let of = rows.each.entry(connection?).or_default();
    let is_next = |back_ns: i64| of.over_ns.saturating_sub(started) <= back_ns;
    law("a connection is asked one query after the other", back_ns.is_none_or(is_next));
    of.over_ns = over;
    of.read += 1;
    of.failed += u64::from(row.has_text("error"));
    of.rows = of.rows.saturating_add(u64::try_from(value("rows")?).unwrap_or(0));
    Some(())
}
