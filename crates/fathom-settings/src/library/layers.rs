//! Documents of one file that Spring Boot merges. Each document overrides the ones before it. One with a condition
//! (`spring.config.activate.on-profile`) applies only if that holds. Documents of other software are independent.

use super::Library;
use crate::group::{Entry, Group};
use crate::syntax::Document;

/// A group's settings in one document.
pub(super) struct Layer {
    /// Prefix of its settings' names.
    pub(super) prefix: String,
    pub(super) document: usize,
    pub(super) group: Group,
}

/// The condition of each document; empty if it always applies. Its name and value tell conditions apart, and are never
/// printed.
pub(super) fn conditions(document: &Document<'_>, whole: impl Fn(usize, &Entry) -> String) -> Vec<String> {
    let count = document.scopes.iter().map(|scope| scope.document + 1).max().unwrap_or(1);
    let mut all = vec![String::new(); count];
    for (at, scope) in document.scopes.iter().enumerate() {
        for entry in &scope.entries {
            let name = whole(at, entry).to_ascii_lowercase();
            // The second is that of Spring Boot before 2.4.
            if name.starts_with("spring.config.activate.") || name == "spring.profiles" {
                all[scope.document].extend([name.as_str(), "=", &entry.value, ";"]);
            }
        }
    }
    all
}

/// One group for each condition of documents with these settings: what they set, and what they inherit.
pub(super) fn layered(library: &Library, conditions: &[String], layers: Vec<Layer>) -> Vec<Group> {
    let is_spring = |layer: &Layer| layer.prefix.to_ascii_lowercase().starts_with("spring.");
    let (layers, alone): (Vec<_>, Vec<_>) = layers.into_iter().partition(is_spring);
    let mut views: Vec<(String, &str)> = Vec::new();
    for layer in &layers {
        let view = (folded(&layer.prefix), conditions[layer.document].as_str());
        if !views.contains(&view) {
            views.push(view);
        }
    }
    let mut groups: Vec<Group> =
        views.iter().filter_map(|view| laid(library, conditions, &layers, view)).collect();
    groups.extend(alone.into_iter().map(|layer| layer.group));
    groups.sort_by_key(|group| group.at);
    groups
}

/// Spring accepts several spellings of a name.
fn folded(prefix: &str) -> String {
    prefix.chars().filter(|c| !matches!(c, '-' | '_')).map(|c| c.to_ascii_lowercase()).collect()
}

/// The settings that apply under a condition. The last document with that condition is their place, where advice is
/// written.
fn laid(library: &Library, conditions: &[String], layers: &[Layer], view: &(String, &str)) -> Option<Group> {
    let (prefix, condition) = view;
    let counts = |layer: &&Layer| {
        let of = conditions[layer.document].as_str();
        folded(&layer.prefix) == *prefix && (of.is_empty() || of == *condition)
    };
    let own = layers.iter().filter(counts).rfind(|layer| conditions[layer.document] == *condition)?;
    let (mut entries, mut wrongs): (Vec<Entry>, _) = (Vec::new(), Vec::new());
    let mut before = None;
    for layer in layers.iter().filter(counts) {
        let same = |a: &Entry, b: &Entry| match (library.key(&a.key), library.key(&b.key)) {
            (Some(a), Some(b)) => a.name == b.name,
            _ => false,
        };
        if before != Some(layer.document) {
            entries.retain(|earlier| !layer.group.entries.iter().any(|entry| same(earlier, entry)));
        }
        before = Some(layer.document);
        entries.extend(layer.group.entries.iter().cloned());
        wrongs.extend(layer.group.wrongs.iter().cloned());
    }
    let Group { at, kebab, ref insert, addable, flavour, .. } = own.group;
    Some(Group { entries, at, kebab, insert: insert.clone(), addable, wrongs, flavour })
}
