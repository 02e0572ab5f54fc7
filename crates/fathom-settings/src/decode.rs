//! Bytes of a file as text.

use crate::place::{Fault, Places, Wrong};

/// What some editors write before a text.
pub(crate) const MARK: &str = "\u{feff}";

/// The text of a file, without the mark that some editors write before it. A fault says where it is none.
pub(crate) fn decode(bytes: &[u8]) -> Result<&str, Fault> {
    if bytes.len() > crate::LARGEST {
        let what = "more than 4 MiB are no file of settings".to_owned();
        return Err(Places::new("").fault(&Wrong { at: 0, what }));
    }
    let bytes = bytes.strip_prefix(MARK.as_bytes()).unwrap_or(bytes);
    std::str::from_utf8(bytes).map_err(|e| {
        let valid = std::str::from_utf8(&bytes[..e.valid_up_to()]).unwrap_or_default();
        let what = "this is no UTF-8 text; save the file as UTF-8".to_owned();
        Places::new(valid).fault(&Wrong { at: valid.len(), what })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Position;

    #[test]
    fn what_is_no_text_has_a_place() {
        assert_eq!(decode(b"\xef\xbb\xbfa=1"), Ok("a=1"));
        let fault = decode(b"a=1\nb=\xe9").expect_err("Latin-1");
        assert_eq!(fault.at, Some(Position { line: 2, column: 3 }));
    }
}
