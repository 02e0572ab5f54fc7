//! What a client asks for once it has logged in: the text of a batch (MS-TDS 2.2.6.7) or of a call (2.2.6.6), or a transaction (2.2.6.9).

use super::{Reader, Refusal, text};

/// The number of `sp_executesql`, by which libraries send a query that has parameters.
const EXECUTE_SQL: u16 = 10;
/// `nvarchar`.
const NVARCHAR: u8 = 0xE7;
/// `ntext`, which some libraries take for longer texts.
const NTEXT: u8 = 0x63;
/// An `nvarchar` of this length comes in parts.
const IN_PARTS: u16 = 0xFFFF;

/// The text of a batch.
pub fn batch(body: &[u8]) -> Result<String, Refusal> {
    let rest = after_headers(body).ok_or(Refusal::Torn("batch"))?;
    Ok(text(rest.0))
}

/// The text that `sp_executesql` is to run, its parameters left out; of any other call its name.
pub fn call(body: &[u8]) -> Result<Call, Refusal> {
    read_call(body).ok_or(Refusal::Torn("call"))
}

/// A call of a procedure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// This text is to be run.
    Text(String),
    /// A procedure that we do not have.
    Other(String),
}

fn read_call(body: &[u8]) -> Option<Call> {
    let mut fields = after_headers(body)?;
    let name = match fields.u16()? {
        0xFFFF => match fields.u16()? {
            EXECUTE_SQL => "sp_executesql".to_owned(),
            number => return Some(Call::Other(format!("procedure {number}"))),
        },
        units => text(fields.bytes(2 * usize::from(units))?),
    };
    if !name.eq_ignore_ascii_case("sp_executesql") {
        return Some(Call::Other(name));
    }
    // Flags of the call; then the first parameter: its name, its flags, its type.
    fields.u16()?;
    let units = usize::from(fields.u8()?);
    fields.bytes(2 * units + 1)?;
    let statement = match fields.u8()? {
        NVARCHAR => {
            let most = fields.u16()?;
            fields.bytes(5)?;
            if most == IN_PARTS {
                in_parts(&mut fields)?
            } else {
                let length = usize::from(fields.u16()?);
                fields.bytes(length)?.to_vec()
            }
        }
        NTEXT => {
            fields.bytes(4 + 5)?;
            let length = usize::try_from(fields.u32()?).ok()?;
            fields.bytes(length)?.to_vec()
        }
        _ => return Some(Call::Other("sp_executesql without a text".into())),
    };
    Some(Call::Text(text(&statement)))
}

/// A value in parts (MS-TDS 2.2.5.2.3): its length in all, which may be unknown, then each part with its own; 0 ends it.
fn in_parts(fields: &mut Reader) -> Option<Vec<u8>> {
    fields.bytes(8)?;
    let mut value = Vec::new();
    loop {
        match usize::try_from(fields.u32()?).ok()? {
            0 => return Some(value),
            length => value.extend_from_slice(fields.bytes(length)?),
        }
    }
}

/// What a transaction's message wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transaction {
    /// 5.
    Begin,
    /// 7.
    Commit,
    /// 8.
    RollBack,
    /// Another, as a distributed one.
    Other(u16),
}

/// Reads a transaction's message.
pub fn transaction(body: &[u8]) -> Result<Transaction, Refusal> {
    let kind = after_headers(body).and_then(|mut fields| fields.u16()).ok_or(Refusal::Torn("transaction"))?;
    Ok(match kind {
        5 => Transaction::Begin,
        7 => Transaction::Commit,
        8 => Transaction::RollBack,
        other => Transaction::Other(other),
    })
}

/// What follows `ALL_HEADERS`, whose length counts itself.
fn after_headers(body: &[u8]) -> Option<Reader<'_>> {
    let length = usize::try_from(Reader(body).u32()?).ok()?;
    if length < 4 {
        return None;
    }
    let mut fields = Reader(body);
    fields.bytes(length)?;
    Some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tds_protocol::rpc::RpcRequest;
    use tds_protocol::sql_batch::SqlBatch;

    #[test]
    fn another_implementation_s_texts_are_read() {
        let body = SqlBatch::new("SELECT 'ä€😀'").encode();
        assert_eq!(batch(&body).expect("a batch"), "SELECT 'ä€😀'");
        let long = format!("SELECT '{}'", "x".repeat(9_000));
        for sql in ["SELECT 1", long.as_str()] {
            let body = RpcRequest::execute_sql(sql, Vec::new()).encode();
            assert_eq!(call(&body).expect("a call"), Call::Text(sql.into()), "{} letters", sql.len());
        }
        let other = RpcRequest::named("sp_who").encode();
        assert_eq!(call(&other).expect("a call"), Call::Other("sp_who".into()));
    }

    proptest! {
        /// Whatever comes is read or refused, and nothing is read beyond its end.
        #[test]
        fn nothing_overruns(body in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = (batch(&body), call(&body), transaction(&body));
        }
    }
}
