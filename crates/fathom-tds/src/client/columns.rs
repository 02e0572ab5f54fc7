//! Columns (MS-TDS 2.2.7.4): how a value of each is laid out, which is all that reading past it needs.

use super::Trouble;
use crate::codec::{Reader, text};

/// A column's description is shorter: its longest names are of 128 characters.
pub(super) const LONGEST: usize = 16 << 10;
/// A length in two bytes that stands for a type in parts.
const IN_PARTS: u16 = 0xFFFF;

/// Where a value's length stands (MS-TDS 2.2.5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// Always so many bytes.
    Fixed(u8),
    /// A byte before it; 0: null.
    Byte,
    /// Two bytes before it; all ones: null.
    Short,
    /// Four bytes before it; 0: null.
    Long,
    /// A pointer and a stamp before four bytes: `text`, `ntext`, `image`.
    Pointed,
    /// In parts, each with its length: `varchar(max)` and its like.
    Parts,
}

/// What follows of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    Null,
    Bytes(u64),
    /// The first of its parts.
    Parts,
}

impl Layout {
    /// Reads what stands before a value; `None`: more bytes are needed.
    pub(super) fn value(self, fields: &mut Reader<'_>) -> Option<Value> {
        let but = |length: u64, null: u64| if length == null { Value::Null } else { Value::Bytes(length) };
        Some(match self {
            Self::Fixed(n) => Value::Bytes(n.into()),
            Self::Byte => but(fields.u8()?.into(), 0),
            Self::Short => but(fields.u16()?.into(), u16::MAX.into()),
            Self::Long => but(fields.u32()?.into(), 0),
            Self::Pointed => match fields.u8()? {
                0 => Value::Null,
                // The pointer itself, and a stamp.
                n => {
                    fields.bytes(usize::from(n) + 8)?;
                    Value::Bytes(fields.u32()?.into())
                }
            },
            // The length of all parts, which may be unknown.
            Self::Parts if fields.bytes(8)? == u64::MAX.to_le_bytes() => Value::Null,
            Self::Parts => Value::Parts,
        })
    }
}

/// What a value is, where somebody wants to read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Integer,
    Wide,
    Narrow,
    Other,
}

/// One column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) layout: Layout,
    meaning: Meaning,
}

impl Column {
    /// Reads a description; `None`: more bytes are needed.
    pub(super) fn read(fields: &mut Reader<'_>) -> Option<Result<Self, Trouble>> {
        // The user's type, and flags.
        fields.bytes(6)?;
        let kind = fields.u8()?;
        let (layout, meaning) = match Self::type_info(kind, fields)? {
            Ok(known) => known,
            Err(trouble) => return Some(Err(trouble)),
        };
        if layout == Layout::Pointed {
            // The table that it is of, in parts.
            for _ in 0..fields.u8()? {
                let units = usize::from(fields.u16()?);
                fields.bytes(2 * units)?;
            }
        }
        short(fields)?;
        Some(Ok(Self { layout, meaning }))
    }

    /// MS-TDS 2.2.5.4 to 2.2.5.6.
    fn type_info(kind: u8, fields: &mut Reader<'_>) -> Option<Result<(Layout, Meaning), Trouble>> {
        use Layout::{Byte, Fixed, Long, Parts, Pointed, Short};
        use Meaning::{Integer, Narrow, Other, Wide};
        Some(Ok(match kind {
            // tinyint, smallint, int, bigint.
            0x30 => (Fixed(1), Integer),
            0x34 => (Fixed(2), Integer),
            0x38 => (Fixed(4), Integer),
            0x7F => (Fixed(8), Integer),
            // bit; smalldatetime, real, smallmoney; money, datetime, float.
            0x32 => (Fixed(1), Other),
            0x3A | 0x3B | 0x7A => (Fixed(4), Other),
            0x3C..=0x3E => (Fixed(8), Other),
            // The same where they may be null, and what has a length of its own: all name the longest.
            0x26 => {
                fields.u8()?;
                (Byte, Integer)
            }
            0x24 | 0x25 | 0x27 | 0x29..=0x2B | 0x2D | 0x2F | 0x68 | 0x6D..=0x6F => {
                fields.u8()?;
                (Byte, Other)
            }
            // decimal, numeric: precision and scale too.
            0x37 | 0x3F | 0x6A | 0x6C => {
                fields.bytes(3)?;
                (Byte, Other)
            }
            // date has nothing; time, datetime2 and datetimeoffset (above) a scale.
            0x28 => (Byte, Other),
            // varbinary, binary.
            0xA5 | 0xAD => (if fields.u16()? == IN_PARTS { Parts } else { Short }, Other),
            // varchar, char; nvarchar, nchar: a collation.
            0xA7 | 0xAF | 0xE7 | 0xEF => {
                let longest = fields.u16()?;
                fields.bytes(5)?;
                (
                    if longest == IN_PARTS { Parts } else { Short },
                    if kind & 0x40 == 0 { Narrow } else { Wide },
                )
            }
            // xml: where it has a schema, its names.
            0xF1 => {
                if fields.u8()? != 0 {
                    short(fields)?;
                    short(fields)?;
                    long(fields)?;
                }
                (Parts, Other)
            }
            // A type of somebody's own: three names, and its assembly's.
            0xF0 => {
                fields.u16()?;
                for _ in 0..3 {
                    short(fields)?;
                }
                long(fields)?;
                (Parts, Other)
            }
            // image; text and ntext have a collation; sql_variant.
            0x22 => {
                fields.u32()?;
                (Pointed, Other)
            }
            0x23 | 0x63 => {
                fields.bytes(9)?;
                (Pointed, Other)
            }
            0x62 => {
                fields.u32()?;
                (Long, Other)
            }
            // No null type (0x1F) either: a value without a byte would make a few bytes a long row.
            _ => return Some(Err(Trouble::Type(kind))),
        }))
    }

    /// A value as text; `None`: of a type that nobody here asks for.
    pub(super) fn text(self, value: &[u8]) -> Option<String> {
        match (self.meaning, value) {
            (Meaning::Integer, &[a]) => Some(a.to_string()),
            (Meaning::Integer, &[a, b]) => Some(i16::from_le_bytes([a, b]).to_string()),
            (Meaning::Integer, &[a, b, c, d]) => Some(i32::from_le_bytes([a, b, c, d]).to_string()),
            (Meaning::Integer, value) => value.try_into().ok().map(|v| i64::from_le_bytes(v).to_string()),
            (Meaning::Wide, value) => Some(text(value)),
            (Meaning::Narrow, value) => Some(String::from_utf8_lossy(value).into_owned()),
            (Meaning::Other, _) => None,
        }
    }
}

/// A name whose length is a byte.
fn short<'a>(fields: &mut Reader<'a>) -> Option<&'a [u8]> {
    let units = usize::from(fields.u8()?);
    fields.bytes(2 * units)
}

/// One whose length is two.
fn long<'a>(fields: &mut Reader<'a>) -> Option<&'a [u8]> {
    let units = usize::from(fields.u16()?);
    fields.bytes(2 * units)
}
