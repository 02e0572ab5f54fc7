//! JSON, with the comments and trailing commas that .NET lets an appsettings.json have.

use super::{DEEPEST, Read, Scope, too_deep};
use crate::group::{Entry, Insert, Style};
use crate::place::Wrong;
use jsonc_parser::ast::{Object, ObjectPropName, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

pub(super) fn read(text: &str) -> Read {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    // Its message may hold a part of the file.
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options)
        .map_err(|e| Wrong { at: e.range().start, what: "this is no valid JSON".to_owned() })?;
    let mut scopes = Vec::new();
    if let Some(value) = &parsed.value {
        walk(value, 0, &mut Vec::new(), &mut scopes)?;
    }
    Ok((scopes, Vec::new()))
}

fn walk(
    value: &Value<'_>,
    depth: usize,
    path: &mut Vec<String>,
    scopes: &mut Vec<Scope>,
) -> Result<(), Wrong> {
    if depth > DEEPEST {
        return Err(too_deep(value.start()));
    }
    match value {
        Value::Object(object) => walk_object(object, depth, path, scopes),
        Value::Array(array) => {
            array.elements.iter().try_for_each(|element| walk(element, depth + 1, path, scopes))
        }
        _ => Ok(()),
    }
}

fn walk_object(
    object: &Object<'_>,
    depth: usize,
    path: &mut Vec<String>,
    scopes: &mut Vec<Scope>,
) -> Result<(), Wrong> {
    let mut entries = Vec::new();
    for property in &object.properties {
        let key_at = match &property.name {
            ObjectPropName::String(name) => name.range.start,
            ObjectPropName::Word(name) => name.range.start,
        };
        let key = property.name.as_str().to_owned();
        let (value, span) = match &property.value {
            Value::StringLit(string) => {
                (string.value.clone().into_owned(), string.range.start + 1..string.range.end - 1)
            }
            Value::NumberLit(number) => (number.value.to_owned(), number.range.start..number.range.end),
            Value::BooleanLit(switch) => (switch.value.to_string(), switch.range.start..switch.range.end),
            _ => continue,
        };
        entries.push(Entry { key, key_at, lead: String::new(), value, span });
    }
    let insert = match object.properties.first() {
        Some(first) => Insert::Before { at: first.start(), style: Style::Json, prefix: String::new() },
        None => Insert::Inside { at: object.range.start + 1 },
    };
    let (path_of, style) = (path.clone(), Style::Json);
    scopes.push(Scope { document: 0, path: path_of, entries, at: object.range.start, style, insert });
    for property in &object.properties {
        path.push(property.name.as_str().to_owned());
        walk(&property.value, depth + 1, path, scopes)?;
        path.pop();
    }
    Ok(())
}
