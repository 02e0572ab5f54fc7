//! Advice, carried out.

use crate::decode::MARK;
use crate::place::Edit;

/// The text with all edits of its report made, in the bytes that were checked: a mark (BOM) before it stays. Edits that overlap one
/// before them are passed over, those of one report do not; two at one place stand in their order.
pub fn apply<'a>(text: &str, edits: impl IntoIterator<Item = &'a Edit>) -> String {
    let mut edits: Vec<&Edit> = edits.into_iter().collect();
    edits.sort_by_key(|edit| (edit.span.start, edit.span.end));
    let (mark, text) = match text.strip_prefix(MARK) {
        Some(rest) => (MARK, rest),
        None => ("", text),
    };
    let (mut out, mut at) = (mark.to_owned(), 0);
    for edit in edits {
        if edit.span.start >= at
            && let (Some(before), Some(_)) = (text.get(at..edit.span.start), text.get(edit.span.clone()))
        {
            out += before;
            out += &edit.text;
            at = edit.span.end;
        }
    }
    out + text.get(at..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_made_from_the_left() {
        let edit = |span, text: &str| Edit { span, text: text.to_owned() };
        let edits = [edit(4..5, "E"), edit(0..0, "x"), edit(0..0, "y"), edit(1..3, "")];
        assert_eq!(apply("abcde", &edits), "xyadE");
        // Places are those behind the mark that some editors write before a text.
        assert_eq!(apply("\u{feff}abcde", &edits), "\u{feff}xyadE");
    }
}
