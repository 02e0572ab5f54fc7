//! What the text of a query has besides comments and quoted text: enough to say why a server does not take it, and no more.

use crate::Target;

/// How a server reads SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Postgres,
    Mysql,
    Tds,
}

impl Dialect {
    pub(crate) fn of(target: &Target) -> Self {
        match target {
            Target::Postgres(_) => Self::Postgres,
            Target::Mysql(_) => Self::Mysql,
            Target::Mssql(_) => Self::Tds,
        }
    }
}

/// Nothing but comments: no server does anything.
pub(crate) fn is_empty(sql: &str, dialect: Dialect) -> bool {
    bare(sql, dialect).chars().all(|c| c.is_whitespace() || c == ';')
}

/// More than one statement.
pub(crate) fn is_several(sql: &str, dialect: Dialect) -> bool {
    bare(sql, dialect).trim_end_matches(|c: char| c.is_whitespace() || c == ';').contains(';')
}

/// A place for a value: `$1`, `?`, `@name`.
pub(crate) fn has_parameters(sql: &str, dialect: Dialect) -> bool {
    let bare = bare(sql, dialect);
    let mut before = ' ';
    let mut chars = bare.chars().peekable();
    while let Some(c) = chars.next() {
        let next = chars.peek().copied().unwrap_or(' ');
        let is_one = match dialect {
            Dialect::Postgres => c == '$' && next.is_ascii_digit() && !is_of_name(before),
            Dialect::Mysql => c == '?',
            Dialect::Tds => c == '@' && is_of_name(next) && before != '@' && !is_of_name(before),
        };
        if is_one {
            return true;
        }
        before = c;
    }
    false
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A blank for each comment, and `'` for each quoted text.
fn bare(sql: &str, dialect: Dialect) -> String {
    let (mut out, mut rest) = (String::new(), sql);
    while let Some(c) = rest.chars().next() {
        let before = out.chars().next_back().unwrap_or(' ');
        let (put, length) = if let Some(length) = comment(rest, dialect) {
            (' ', length)
        } else if let Some(length) = quoted(rest, before, dialect) {
            ('\'', length)
        } else {
            (c, c.len_utf8())
        };
        out.push(put);
        rest = &rest[length..];
    }
    out
}

/// Bytes of the comment that begins here.
fn comment(text: &str, dialect: Dialect) -> Option<usize> {
    let is_mysql = dialect == Dialect::Mysql;
    // MySQL wants a blank after the two, because 5--1 is 6.
    let is_dashed = text.strip_prefix("--").is_some_and(|rest| {
        !is_mysql || rest.chars().next().is_none_or(|c| c.is_whitespace() || c.is_control())
    });
    if is_dashed || (is_mysql && text.starts_with('#')) {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    // MySQL and MariaDB execute what stands in these.
    let is_executed = is_mysql && (text.starts_with("/*!") || text.starts_with("/*M!"));
    if !text.starts_with("/*") || is_executed {
        return None;
    }
    let (mut at, mut depth) = (2, 1);
    while depth > 0 {
        let rest = &text[at..];
        // MySQL's do not nest.
        let (end, begin) = (rest.find("*/"), rest.find("/*").filter(|_| !is_mysql));
        match (end, begin) {
            (Some(end), Some(begin)) if begin < end => (at, depth) = (at + begin + 2, depth + 1),
            (Some(end), _) => (at, depth) = (at + end + 2, depth - 1),
            (None, _) => return Some(text.len()),
        }
    }
    Some(at)
}

/// Bytes of the quoted text or name that begins here.
fn quoted(text: &str, before: char, dialect: Dialect) -> Option<usize> {
    let first = text.chars().next()?;
    if first == '$' && dialect == Dialect::Postgres && !is_of_name(before) {
        let tag = text[1..].find(|c| !is_of_name(c))? + 1;
        let is_tag = text[tag..].starts_with('$') && !text[1..tag].starts_with(|c: char| c.is_ascii_digit());
        let tag = is_tag.then(|| &text[..=tag])?;
        return Some(text[tag.len()..].find(tag).map_or(text.len(), |end| 2 * tag.len() + end));
    }
    let end = match first {
        '\'' | '"' => first,
        '`' if dialect == Dialect::Mysql => first,
        '[' if dialect == Dialect::Tds => ']',
        _ => return None,
    };
    let is_escaped = match dialect {
        Dialect::Mysql => first != '`',
        Dialect::Postgres => first == '\'' && matches!(before, 'e' | 'E'),
        Dialect::Tds => false,
    };
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        if is_escaped && c == '\\' {
            chars.next();
        } else if c == end {
            // One that is doubled begins the next piece, which is quoted as well.
            return Some(at + c.len_utf8());
        }
    }
    Some(text.len())
}

#[cfg(test)]
mod tests {
    use super::Dialect::{Mysql, Postgres, Tds};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_only_comments_is_empty() {
        for (sql, dialects) in [
            ("-- top orders", &[Postgres, Mysql, Tds][..]),
            (" ;; /* a ; b */ \n-- c\n", &[Postgres, Mysql, Tds]),
            ("# c", &[Mysql]),
            ("/* a /* b */ c */", &[Postgres, Tds]),
            ("/* never closed", &[Postgres, Mysql, Tds]),
            ("", &[Postgres, Mysql, Tds]),
        ] {
            for dialect in [Postgres, Mysql, Tds] {
                assert_eq!(is_empty(sql, dialect), dialects.contains(&dialect), "{sql} {dialect:?}");
            }
        }
        for sql in ["-- top\nSELECT 1", "/*! SELECT 1 */", "/*M! SELECT 1 */", "SELECT '-- a'", "--1"] {
            assert!(!is_empty(sql, Mysql), "{sql}");
        }
    }

    #[test]
    fn only_unquoted_semicolons_separate_statements() {
        for dialect in [Postgres, Mysql, Tds] {
            assert!(is_several("SELECT 1; SELECT 2", dialect));
            for sql in
                ["SELECT 1;", "SELECT ';'; -- ; \n", "SELECT 'a'';b'", "SELECT \";\"", "SELECT 1 /* ; */"]
            {
                assert!(!is_several(sql, dialect), "{sql} {dialect:?}");
            }
        }
        assert!(
            !is_several("SELECT $x$ a; b $x$", Postgres)
                && is_several("SELECT $x$ a; b $x$; SELECT 1", Postgres)
        );
        assert!(!is_several(r"SELECT E'\'; b'", Postgres) && !is_several(r"SELECT '\'; b'", Mysql));
        assert!(!is_several("SELECT [a;b]", Tds) && !is_several("SELECT `a;b`", Mysql));
    }

    #[test]
    fn places_of_values_are_found() {
        assert!(has_parameters("SELECT * FROM t WHERE a=$1", Postgres));
        assert!(has_parameters("SELECT ?", Mysql) && has_parameters("SELECT @a", Tds));
        for (sql, dialect) in [
            ("SELECT '$1', a$1, $$ $1 $$", Postgres),
            ("SELECT '?' -- ?", Mysql),
            ("SELECT @@SPID, 'a@b'", Tds),
        ] {
            assert!(!has_parameters(sql, dialect), "{sql}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_to_its_end(sql in ".{0,80}|[-/*#'\"`$;a1\\\\\\[\\]?@ \n]{0,40}") {
            for dialect in [Postgres, Mysql, Tds] {
                _ = (is_empty(&sql, dialect), is_several(&sql, dialect), has_parameters(&sql, dialect));
            }
        }
    }
}
