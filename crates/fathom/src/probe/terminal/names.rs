//! Names that are too long for their column: cut so that they still tell one path from another.

use ratatui::text::Span;
use std::collections::BTreeMap;

/// The labels, those cut that are wider than this. A label loses its middle, because labels of a kind mostly differ at
/// either end; where that makes two labels alike, these lose what they have in common at their beginning instead.
pub(super) fn cut(labels: &[&str], width: usize) -> Vec<String> {
    let mut cut: Vec<String> = labels.iter().map(|label| elided(label, width)).collect();
    let mut alike: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (path, text) in cut.iter().enumerate() {
        alike.entry(text).or_default().push(path);
    }
    let alike: Vec<Vec<usize>> = alike.into_values().filter(|paths| paths.len() > 1).collect();
    for paths in alike {
        let of: Vec<Vec<char>> = paths.iter().map(|&path| labels[path].chars().collect()).collect();
        // Two paths may bear one label; nothing tells those apart.
        let common =
            (0..).take_while(|&at| of[0].get(at).is_some_and(|c| of.iter().all(|l| l.get(at) == Some(c))));
        let common = common.count();
        if of.iter().all(|letters| letters.len() == common) {
            continue;
        }
        for (path, letters) in paths.into_iter().zip(of) {
            let rest: String = letters[common..].iter().collect();
            // One letter of what they share shows where a name goes on.
            cut[path] = beginning(&format!("…{rest}"), width);
        }
    }
    cut
}

/// The text without its middle.
fn elided(label: &str, width: usize) -> String {
    if Span::raw(label).width() <= width {
        return label.to_owned();
    }
    let letters: Vec<char> = label.chars().collect();
    let tail = width / 2;
    let head = width.saturating_sub(tail + 1).min(letters.len());
    let tail = &letters[letters.len().saturating_sub(tail).max(head)..];
    letters[..head].iter().chain(&['…']).chain(tail).collect()
}

/// The text without its end.
pub(super) fn beginning(text: &str, width: usize) -> String {
    if Span::raw(text).width() <= width {
        return text.to_owned();
    }
    let mut out = text.to_owned();
    while Span::raw(&out).width() + 1 > width && out.pop().is_some() {}
    out.push('…');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortened_labels_keep_distinguishing_part() {
        assert_eq!(cut(&["short", "db-1.example"], 12), ["short", "db-1.example"]);
        let beginnings = ["db-1.east.example.com", "db-2.east.example.com"];
        assert_eq!(cut(&beginnings, 12), ["db-1.…le.com", "db-2.…le.com"]);
        let ends = ["east-to-west-by-peering-a", "east-to-west-by-peering-b"];
        assert_eq!(cut(&ends, 12), ["east-…ring-a", "east-…ring-b"]);
        let middles = ["cluster-east-db-1.corp.example.com", "cluster-east-db-2.corp.example.com", "other"];
        assert_eq!(cut(&middles, 12), ["…1.corp.exa…", "…2.corp.exa…", "other"]);
        // Three of which two differ later.
        let three =
            ["cluster-a-1.corp.example.com", "cluster-a-2.corp.example.com", "cluster-b-1.corp.example.com"];
        let told = cut(&three, 12);
        assert!(told[0] != told[1] && told[1] != told[2] && told[0] != told[2], "{told:?}");
        assert_eq!(cut(&["the same long label", "the same long label"], 9), ["the …abel"; 2]);
        // One is the beginning of the other's middle.
        let told = cut(&["aaaaaaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaaaaaaa"], 9);
        assert!(told[0] != told[1], "{told:?}");
    }

    #[test]
    fn nothing_is_wider_than_its_column() {
        for width in 0..14 {
            for text in cut(
                &["cluster-east-db-1.corp.example", "cluster-east-db-2.corp.example", "東京大阪名古屋札幌"],
                width,
            ) {
                assert!(width == 0 || Span::raw(&text).width() <= 2 * width, "{width}: {text}");
            }
        }
    }
}
