//! Which columns stand in the Parquet file of a closed segment. What a reader can derive, exactly and of every row, is not
//! written; `schema/recording.md` has the rules. Rows are the same whatever the layout.

use crate::columns::{COLUMNS, Column, Kind, schema_of};
use arrow_schema::Schema;
use fathom_core::sample::Sample;

/// The columns of a closed segment's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// All of them: format version 1, and exports.
    Whole,
    /// Without `rtt_bucket`, `lateness_ns` and `backward_ns`, which follow from the others: from format version 2 on.
    Derived,
}

/// Of [`Layout::Derived`].
const DERIVED: [Column; 14] = [
    COLUMNS[0],
    COLUMNS[1],
    COLUMNS[2],
    COLUMNS[3],
    // A schedule is regular, and lateness is noise that sent_ns has too.
    Column {
        name: "due_ns",
        kind: Kind::I64,
        nullable: false,
        unit: "ns since the Unix epoch",
        get: |s| Some(s.sent_ns.wrapping_sub(s.lateness_ns) as u64),
        // sent_ns stands before it.
        set: |s, v| s.lateness_ns = s.sent_ns.wrapping_sub(v.unwrap_or_default() as i64),
    },
    COLUMNS[5],
    COLUMNS[7],
    COLUMNS[8],
    COLUMNS[9],
    COLUMNS[10],
    // In place of backward_ns, and 0 almost always.
    Column {
        name: "clock_shift_ns",
        kind: Kind::I64,
        nullable: true,
        unit: "ns",
        get: |s| s.backward_ns.map(|backward| backward.wrapping_sub(rest_of(s)) as u64),
        // What it is derived from stands before it.
        set: |s, v| s.backward_ns = v.map(|shift| rest_of(s).wrapping_add(shift as i64)),
    },
    COLUMNS[12],
    COLUMNS[13],
    COLUMNS[14],
];

/// What of the round trip is neither the way there nor the time at the reflector.
fn rest_of(sample: &Sample) -> i64 {
    let [rtt, reflector, forward] =
        [sample.rtt_ns, sample.reflector_ns, sample.forward_ns].map(Option::unwrap_or_default);
    rtt.wrapping_sub(reflector).wrapping_sub(forward)
}

impl Layout {
    /// That of the segments of a recording.
    pub(crate) fn of_version(format_version: u64) -> Self {
        if format_version < 2 { Self::Whole } else { Self::Derived }
    }

    /// That of a file with this schema, where it is one of ours.
    pub(crate) fn of_schema(schema: &Schema) -> Option<Self> {
        [Self::Derived, Self::Whole].into_iter().find(|layout| {
            let (ours, theirs) = (layout.schema(), schema.fields());
            ours.fields().len() == theirs.len()
                && ours.fields().iter().zip(theirs).all(|(a, b)| {
                    a.name() == b.name()
                        && a.data_type() == b.data_type()
                        && a.is_nullable() == b.is_nullable()
                })
        })
    }

    /// Its columns, in the order in which they are put back: each stands after those that it is derived from.
    pub(crate) fn columns(self) -> &'static [Column] {
        match self {
            Self::Whole => &COLUMNS,
            Self::Derived => &DERIVED,
        }
    }

    pub(crate) fn schema(self) -> Schema {
        schema_of(self.columns())
    }
}
