//! The columns of a sample, as data: writer, reader, conversion, CSV and the schema's own test go by this table. Which of them
//! stand in the file of a closed segment is `layout`'s.

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, UInt16Array, UInt32Array, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use fathom_core::histogram::bucket_of;
use fathom_core::sample::{Flags, Sample};
use std::sync::Arc;

/// The integer type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
    /// Signed, 64 bits.
    I64,
}

impl Kind {
    /// Bytes of a value.
    pub fn width(self) -> usize {
        match self {
            Self::U16 => 2,
            Self::U32 => 4,
            Self::U64 | Self::I64 => 8,
        }
    }

    /// The name used in `schema/samples.json`, which is Arrow's.
    pub fn name(self) -> &'static str {
        match self {
            Self::U16 => "uint16",
            Self::U32 => "uint32",
            Self::U64 => "uint64",
            Self::I64 => "int64",
        }
    }

    fn data_type(self) -> DataType {
        match self {
            Self::U16 => DataType::UInt16,
            Self::U32 => DataType::UInt32,
            Self::U64 => DataType::UInt64,
            Self::I64 => DataType::Int64,
        }
    }
}

/// One column: its name and type, and how it is taken from a sample and put back.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Name, part of the format.
    pub name: &'static str,
    /// Integer type.
    pub kind: Kind,
    /// Whether a value may be absent.
    pub nullable: bool,
    /// Unit of the values; empty for ordinals and bit sets.
    pub unit: &'static str,
    pub(crate) get: fn(&Sample) -> Option<u64>,
    pub(crate) set: fn(&mut Sample, Option<u64>),
}

impl Column {
    /// The value in a sample, signed ones as their two's complement bits.
    pub fn get(&self, sample: &Sample) -> Option<u64> {
        (self.get)(sample)
    }

    /// Puts a value back; tells whether the sample now has it (a derived column may disagree).
    pub(crate) fn put(&self, sample: &mut Sample, value: Option<u64>) -> bool {
        (self.set)(sample, value);
        (self.get)(sample) == value
    }
}

macro_rules! column {
    ($name:literal, $kind:ident, $unit:literal, $field:ident as Option<$type:ty>) => {
        Column {
            name: $name,
            kind: Kind::$kind,
            nullable: true,
            unit: $unit,
            get: |s| s.$field.map(|v| v as u64),
            set: |s, v| s.$field = v.map(|v| v as $type),
        }
    };
    ($name:literal, $kind:ident, $unit:literal, $field:ident as $type:ty) => {
        Column {
            name: $name,
            kind: Kind::$kind,
            nullable: false,
            unit: $unit,
            get: |s| Some(s.$field as u64),
            set: |s, v| s.$field = v.unwrap_or_default() as $type,
        }
    };
}

/// The columns of a sample, in order.
#[allow(clippy::cast_lossless, reason = "one macro serves columns of every width")]
pub const COLUMNS: [Column; 15] = [
    column!("connection", U32, "", connection as u32),
    column!("seq", U64, "", seq as u64),
    column!("size", U32, "bytes", size as u32),
    column!("sent_ns", I64, "ns since the Unix epoch", sent_ns as i64),
    column!("lateness_ns", I64, "ns", lateness_ns as i64),
    column!("rtt_ns", I64, "ns", rtt_ns as Option<i64>),
    Column {
        name: "rtt_bucket",
        kind: Kind::U16,
        nullable: true,
        unit: "bucket",
        get: |s| s.rtt_ns.map(|rtt| bucket_of(rtt).into()),
        // Derived from rtt_ns, which stands before it; `put` compares.
        set: |_, _| {},
    },
    column!("send_stack_ns", I64, "ns", send_stack_ns as Option<i64>),
    column!("recv_stack_ns", I64, "ns", recv_stack_ns as Option<i64>),
    column!("reflector_ns", I64, "ns", reflector_ns as Option<i64>),
    column!("forward_ns", I64, "ns", forward_ns as Option<i64>),
    column!("backward_ns", I64, "ns", backward_ns as Option<i64>),
    column!("srtt_us", U32, "us", srtt_us as Option<u32>),
    column!("retransmits", U16, "segments", retransmits as Option<u16>),
    Column {
        name: "flags",
        kind: Kind::U16,
        nullable: false,
        unit: "",
        get: |s| Some(s.flags.0.into()),
        set: |s, v| s.flags = Flags(v.unwrap_or_default() as u16),
    },
];

/// These columns as Arrow and Parquet have them.
pub(crate) fn schema_of(columns: &[Column]) -> Schema {
    Schema::new(
        columns.iter().map(|c| Field::new(c.name, c.kind.data_type(), c.nullable)).collect::<Vec<_>>(),
    )
}

/// The schema of whole rows.
pub(crate) fn arrow_schema() -> Schema {
    schema_of(&COLUMNS)
}

/// These columns of samples as a record batch.
pub(crate) fn to_batch(
    schema: &Arc<Schema>,
    columns: &[Column],
    samples: &[Sample],
) -> Result<RecordBatch, ArrowError> {
    let arrays = columns.iter().map(|c| -> ArrayRef {
        let values = samples.iter().map(|s| c.get(s));
        match c.kind {
            Kind::U16 => Arc::new(values.map(|v| v.map(|v| v as u16)).collect::<UInt16Array>()),
            Kind::U32 => Arc::new(values.map(|v| v.map(|v| v as u32)).collect::<UInt32Array>()),
            Kind::U64 => Arc::new(values.collect::<UInt64Array>()),
            Kind::I64 => Arc::new(values.map(|v| v.map(|v| v as i64)).collect::<Int64Array>()),
        }
    });
    RecordBatch::try_new(Arc::clone(schema), arrays.collect())
}

/// Samples of a record batch of these columns, and how many of them have a bucket that is not their RTT's.
pub(crate) fn from_batch(columns: &[Column], batch: &RecordBatch) -> Option<(Vec<Sample>, u64)> {
    let mut samples = vec![Sample::default(); batch.num_rows()];
    let mut disagreeing = 0;
    for (column, array) in columns.iter().zip(batch.columns()) {
        let any = array.as_any();
        match column.kind {
            Kind::U16 => {
                let array = any.downcast_ref::<UInt16Array>()?;
                disagreeing += fill(column, &mut samples, array.iter().map(|v| v.map(u64::from)));
            }
            Kind::U32 => {
                let array = any.downcast_ref::<UInt32Array>()?;
                disagreeing += fill(column, &mut samples, array.iter().map(|v| v.map(u64::from)));
            }
            Kind::U64 => disagreeing += fill(column, &mut samples, any.downcast_ref::<UInt64Array>()?.iter()),
            Kind::I64 => {
                let array = any.downcast_ref::<Int64Array>()?;
                disagreeing += fill(column, &mut samples, array.iter().map(|v| v.map(|v| v as u64)));
            }
        }
    }
    Some((samples, disagreeing))
}

fn fill(column: &Column, samples: &mut [Sample], values: impl Iterator<Item = Option<u64>>) -> u64 {
    samples.iter_mut().zip(values).map(|(sample, value)| u64::from(!column.put(sample, value))).sum()
}
