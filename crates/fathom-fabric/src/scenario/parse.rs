//! From text to a [`Scenario`]: hosts, middleboxes and paths, each checked against those before it.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use toml::de::DeTable;

use super::error::{ScenarioError, Source};
use super::model::Load;
use super::read::{At, Table, Value, unknown};
use super::{
    FORMAT, Host, Middlebox, Path, Scenario, SimulateSpec, events, middlebox, model, routes, simulate,
};

pub(super) fn scenario(text: &str, file: &str, load: Load<'_>) -> Result<Scenario, ScenarioError> {
    let source = Source { file, text };
    let root = DeTable::parse(text).map_err(|e| source.foreign(&e, &(0..0)))?;
    let mut root = Table::new(source, "the scenario".to_owned(), 0..0, root.into_inner());
    let format = root.require("format", "1")?;
    let span = format.span();
    match format.integer()? {
        FORMAT => {}
        later => {
            let message = format!(
                "this version reads format {FORMAT} only, not {later}; use the fathom it was written for"
            );
            return Err(source.error(&span, message));
        }
    }
    let mut scenario = Scenario {
        name: match root.take("name") {
            Some(name) => name.text()?.value,
            None => file.to_owned(),
        },
        description: root
            .take("description")
            .map(|v| v.text())
            .transpose()?
            .map_or_else(String::new, |t| t.value),
        seed: root.take("seed").map(|v| v.integer()).transpose()?.unwrap_or(1),
        hosts: Vec::new(),
        middleboxes: Vec::new(),
        paths: Vec::new(),
        events: Vec::new(),
        simulate: SimulateSpec::default(),
        packet_log: root.take("packet-log").map(|v| v.boolean()).transpose()?.unwrap_or(false),
    };
    let mut names = Names::default();
    for table in tables(&mut root, "host")? {
        scenario.hosts.push(host(table, &mut names)?);
    }
    if scenario.hosts.is_empty() {
        return Err(root.error("has no hosts; add [[host]] with a name and an address"));
    }
    let boxes = tables(&mut root, "middlebox")?;
    middleboxes(&mut scenario, boxes, &mut names)?;
    let mut path_spans = Vec::new();
    for table in tables(&mut root, "path")? {
        let span = table.span.clone();
        let path = path(&scenario, table, load)?;
        scenario.paths.push(path);
        path_spans.push(span);
    }
    routes::check(&scenario).map_err(|(path, message)| source.error(&path_spans[path], message))?;
    for table in tables(&mut root, "event")? {
        let times = events::timed(&scenario, table)?;
        scenario.events.extend(times);
    }
    scenario.events.sort_by_key(|e| e.at_ns);
    if let Some(table) = root.take("simulate") {
        scenario.simulate = simulate::spec(&scenario, table.table()?)?;
    }
    root.finish()?;
    Ok(scenario)
}

/// The tables of `[[key]]`.
fn tables<'a>(root: &mut Table<'a>, key: &'static str) -> Result<Vec<Table<'a>>, ScenarioError> {
    let Some(value) = root.take(key) else { return Ok(Vec::new()) };
    if value.is_table() {
        return Err(value.error(format_args!("is one table; write [[{key}]] with double brackets")));
    }
    let tables = value.list()?.into_iter().map(Value::table);
    tables
        .map(|t| {
            t.map(|mut t| {
                t.call(format!("a [[{key}]]"));
                t
            })
        })
        .collect()
}

/// Names and addresses that are taken, and by whom.
#[derive(Debug, Default)]
struct Names {
    nodes: HashMap<String, usize>,
    addresses: HashMap<IpAddr, String>,
}

impl Names {
    /// A node's name: one word that can stand in a command line and a file name, and that nobody else has.
    fn node(&mut self, table: &mut Table<'_>, kind: &str) -> Result<String, ScenarioError> {
        let At { value: name, span } = table.require("name", "\"client\"")?.text()?;
        word(table, &name, &span, "a name")?;
        table.call(format!("{kind} \"{name}\""));
        let line = table.source.error(&span, "").line;
        if let Some(first) = self.nodes.insert(name.clone(), line) {
            let message =
                format!("the name \"{name}\" is used twice, first in line {first}; rename one of the two");
            return Err(table.source.error(&span, message));
        }
        Ok(name)
    }

    fn address(&mut self, value: &Value<'_>, address: IpAddr, of: &str) -> Result<(), ScenarioError> {
        let unusable = address.is_loopback() || address.is_unspecified() || address.is_multicast();
        if unusable {
            return Err(value
                .error(format_args!("cannot be {address}: a host needs a unicast address, as in 10.0.0.4")));
        }
        match self.addresses.insert(address, of.to_owned()) {
            Some(other) => {
                Err(value
                    .error(format_args!("is {address}, which \"{other}\" has already; give each its own")))
            }
            None => Ok(()),
        }
    }
}

/// Letters, digits, dot, dash and underscore.
fn word(
    table: &Table<'_>,
    word: &str,
    span: &std::ops::Range<usize>,
    what: &str,
) -> Result<(), ScenarioError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if word.is_empty() || !word.chars().all(fits) || word.starts_with(['-', '.']) {
        let message = format!(
            "\"{word}\" cannot be {what}: use letters, digits, dash, dot and underscore, as in zone-1"
        );
        return Err(table.source.error(span, message));
    }
    Ok(())
}

fn ip(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("{text} is no IP address; write it as in 10.0.0.4 or fd00::4"))
}

fn host(mut table: Table<'_>, names: &mut Names) -> Result<Host, ScenarioError> {
    let name = names.node(&mut table, "host")?;
    let values = match (table.take("address"), table.take("addresses")) {
        (Some(one), None) => vec![one],
        (None, Some(many)) => many.list()?,
        (Some(_), Some(many)) => return Err(many.error("stands beside `address`; keep one of the two")),
        (None, None) => Vec::new(),
    };
    if values.is_empty() {
        return Err(table.error("has no address; add address = \"10.0.0.4\""));
    }
    let mut addresses = Vec::new();
    for value in values {
        let address = value.parsed(ip)?;
        names.address(&value, address, &name)?;
        addresses.push(address);
    }
    let mut tags = BTreeMap::new();
    if let Some(value) = table.take("tags") {
        for (key, value) in value.table()?.rest() {
            tags.insert(key, value.text()?.value);
        }
    }
    let mtu = match table.take("mtu") {
        Some(value) => match value.size()? {
            // RFC 8200, section 5: every link has an MTU of at least 1280.
            mtu @ 1_280..=65_535 => mtu as u16,
            mtu => return Err(value.error(format_args!("must lie between 1280 and 65535 bytes, not {mtu}"))),
        },
        None => 1_500,
    };
    table.finish()?;
    Ok(Host { name, addresses, tags, mtu })
}

fn middleboxes(
    scenario: &mut Scenario,
    tables: Vec<Table<'_>>,
    names: &mut Names,
) -> Result<(), ScenarioError> {
    for mut table in tables {
        let name = names.node(&mut table, "middlebox")?;
        let place = (table.source, table.span.clone());
        let config = middlebox::config(table)?;
        let stage = config
            .clone()
            .build(&name, &|node| scenario.resolve(node))
            .map_err(|e| place.0.error(&place.1, format!("middlebox \"{name}\": {e}")))?;
        let addresses = stage.addresses();
        for address in &addresses {
            if let Some(other) = names.addresses.insert(*address, name.clone()) {
                let message = format!(
                    "the address {address} of middlebox \"{name}\" is one that \"{other}\" has already; give each its own"
                );
                return Err(place.0.error(&place.1, message));
            }
        }
        scenario.middleboxes.push(Middlebox { name, config, addresses });
    }
    Ok(())
}

fn path(scenario: &Scenario, mut table: Table<'_>, load: Load<'_>) -> Result<Path, ScenarioError> {
    let At { value: label, span } = table.require("label", "\"same-zone\"")?.text()?;
    word(&table, &label, &span, "a label")?;
    table.call(format!("path \"{label}\""));
    if scenario.path(&label).is_some() {
        return Err(table
            .source
            .error(&span, format!("the label \"{label}\" is used twice; rename one of the two paths")));
    }
    let (from, from_addresses) = end(scenario, &table.require("from", "\"client\"")?)?;
    let to_value = table.require("to", "\"server\"")?;
    let (to, to_addresses) = end(scenario, &to_value)?;
    if from == to {
        return Err(
            to_value.error(format_args!("is \"{to}\", where the path begins; a path joins two nodes"))
        );
    }
    let mut via = Vec::new();
    if let Some(values) = table.take("via") {
        for value in values.list()? {
            let name = value.text()?.value;
            if !scenario.middleboxes.iter().any(|m| m.name == name) {
                let boxes = scenario.middleboxes.iter().map(|m| &m.name);
                return Err(value.error(unknown(
                    "a middlebox",
                    &name,
                    boxes,
                    "add a [[middlebox]] of that name",
                )));
            }
            if via.contains(&name) || name == from || name == to {
                return Err(value.error(format_args!(
                    "is \"{name}\", where the path comes by already; name each node once"
                )));
            }
            via.push(name);
        }
    }
    let source = table.take("source").map(|v| v.text()).transpose()?.map_or_else(String::new, |t| t.value);
    let (forward, backward) = model::both(&mut table, load)?;
    table.finish()?;
    Ok(Path { label, from, from_addresses, to, to_addresses, via, source, forward, backward })
}

/// The node at an end of a path: its name, or an address of a host.
fn end(scenario: &Scenario, value: &Value<'_>) -> Result<(String, Vec<IpAddr>), ScenarioError> {
    let name = value.text()?.value;
    if let Some(host) = scenario.host(&name) {
        return Ok((name, vec![host.addresses[0]]));
    }
    if scenario.middleboxes.iter().any(|m| m.name == name) {
        let addresses = scenario.node_addresses(&name).to_vec();
        return Ok((name, addresses));
    }
    if let Ok(address) = name.parse::<IpAddr>()
        && let Some(host) = scenario.hosts.iter().find(|h| h.addresses.contains(&address))
    {
        return Ok((host.name.clone(), vec![address]));
    }
    let nodes = scenario.hosts.iter().map(|h| &h.name).chain(scenario.middleboxes.iter().map(|m| &m.name));
    Err(value.error(unknown(
        "a host, a middlebox or a host's address",
        &name,
        nodes,
        "add it, or correct the name",
    )))
}
