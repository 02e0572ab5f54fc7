//! Whose settings a file has, by what is in it.

use crate::kind::Kind;
use crate::library;
use crate::place::Wrong;
use crate::syntax::{Document, Format, read_as};

/// The library that most of a file's content speaks for.
pub(crate) fn recognise(document: &Document<'_>, name: &str) -> Result<Kind, Wrong> {
    let mut all = Kind::ALL.map(|kind| (library::evidence(kind, document, name), kind));
    all.sort_by_key(|(evidence, _)| std::cmp::Reverse(*evidence));
    let as_one_of = |kinds: &[Kind]| kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
    let best: Vec<Kind> =
        all.iter().filter(|(evidence, _)| *evidence == all[0].0).map(|(_, kind)| *kind).collect();
    match best.as_slice() {
        _ if all[0].0 == 0 => Err(Wrong {
            at: 0,
            what: format!(
                "nothing in it says whose settings these are; add --as with one of {}",
                as_one_of(&Kind::ALL)
            ),
        }),
        [kind] => Ok(*kind),
        several => Err(Wrong {
            at: 0,
            what: format!("several libraries read such a file; add --as with one of {}", as_one_of(several)),
        }),
    }
}

/// Whether a text that nothing else speaks for has settings of `HikariCP`'s own file of properties.
pub(crate) fn are_properties(text: &str) -> bool {
    read_as(Format::Properties, text).is_ok_and(|document| library::evidence(Kind::Hikari, &document, "") > 0)
}
