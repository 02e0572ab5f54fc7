//! What follows in a stream where it cannot be read on: only how many rows it has, and of which connections.

use super::{COLUMNS, CONTINUATION, MAX_BODY, MAX_METADATA, MAX_ROWS, decode, message};
use fathom_core::sample::Sample;

/// What stands at a place behind which a stream cannot be read on.
#[derive(Debug)]
pub(crate) enum Behind {
    /// A record batch, whole or damaged, which says how many rows it has; `samples` only where it is intact.
    Batch { rows: u64, bytes: u64, samples: Option<Vec<Sample>> },
    /// So many bytes from here on are needed to tell.
    Wanted(u64),
    /// A message whose end is not in the file.
    CutOff,
    /// No message.
    Nothing,
}

/// All that [`behind`] looks at before it wants more, in bytes.
pub(crate) const MESSAGE_HEAD: u64 = 8 + MAX_METADATA;

/// Looks at `bytes`, the rest of a stream or at least its next [`MESSAGE_HEAD`]; `left` is how long the rest is. `begins`: a message
/// is known to begin here, so that one whose first bytes are damaged is taken for one.
pub(crate) fn behind(bytes: &[u8], left: u64, begins: bool) -> Behind {
    let Some((prefix, rest)) = bytes.split_at_checked(8) else {
        return if begins { Behind::CutOff } else { Behind::Nothing };
    };
    let size = u64::from(u32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]));
    let fits = prefix[..4] == CONTINUATION && (1..=MAX_METADATA).contains(&size);
    let cut_off = fits && size > left - 8;
    if !begins && (!fits || cut_off) {
        return Behind::Nothing;
    }
    if let Some(metadata) = rest.get(..size as usize).filter(|_| fits)
        && let Some((rows, body)) = stated(metadata)
    {
        let whole = 8 + size + body;
        return match rest[metadata.len()..].get(..body as usize) {
            Some(body) => Behind::Batch { rows, bytes: whole, samples: decode(metadata, body).ok() },
            None if whole <= left => Behind::Wanted(whole),
            None => Behind::CutOff,
        };
    }
    // How long its metadata is cannot be read; where it is the last one its body ends with the file.
    let metadata = &rest[..rest.len().min(MAX_METADATA as usize)];
    if begins && let Some((rows, body)) = stated(metadata) {
        if bytes.len() as u64 != left && left <= MESSAGE_HEAD + body {
            return Behind::Wanted(left);
        }
        let last = rest.len().checked_sub(body as usize).filter(|_| bytes.len() as u64 == left);
        if last.is_some_and(|at| decode(metadata, &rest[at..]).is_ok()) {
            return Behind::Batch { rows, bytes: left, samples: None };
        }
        if !cut_off {
            return Behind::Batch { rows, bytes: 8, samples: None };
        }
    }
    if cut_off { Behind::CutOff } else { Behind::Nothing }
}

/// How many rows and bytes of body a record batch has by its metadata, where all of it agrees.
fn stated(metadata: &[u8]) -> Option<(u64, u64)> {
    let message = message(metadata).ok()?;
    let batch = message.header_as_record_batch()?;
    let (nodes, buffers, rows) = (batch.nodes()?, batch.buffers()?, batch.length());
    let columns = nodes.len() == COLUMNS.len() && buffers.len() == 2 * COLUMNS.len();
    if !columns || !(1..=MAX_ROWS).contains(&rows) {
        return None;
    }
    let mut body = 0_u64;
    for (i, column) in COLUMNS.iter().enumerate() {
        let (validity, values) = (buffers.get(2 * i), buffers.get(2 * i + 1));
        let bits = [0, (rows + 7) / 8].contains(&validity.length());
        if nodes.get(i).length() != rows || !bits || values.length() != rows * column.kind.width() as i64 {
            return None;
        }
        for buffer in [validity, values] {
            body += u64::try_from(buffer.length()).ok()?.next_multiple_of(8);
        }
    }
    (body <= MAX_BODY).then_some((rows as u64, body))
}
