//! `[[middlebox]]`: the configuration of its kind, which serde reads.

use super::error::ScenarioError;
use super::read::{Table, unknown};
use crate::stage::StageConfig;

const KINDS: [&str; 5] = ["load-balancer", "firewall", "nat", "private-endpoint", "gateway"];

/// The configuration in a table whose `name` has been taken. Kind by kind, because serde forgets the places of what it
/// reads through a tagged enum.
pub(super) fn config(mut table: Table<'_>) -> Result<StageConfig, ScenarioError> {
    // Where its numbers come from, for people.
    table.take("source").map(|v| v.text()).transpose()?;
    let value = table.require("kind", "\"firewall\"")?;
    let kind = value.text()?.value;
    Ok(match kind.as_str() {
        "load-balancer" => StageConfig::LoadBalancer(table.serde(&[])?),
        "firewall" => StageConfig::Firewall(table.serde(&[])?),
        "nat" => StageConfig::Nat(table.serde(&[])?),
        "private-endpoint" => StageConfig::PrivateEndpoint(table.serde(&[])?),
        "gateway" => StageConfig::Gateway(table.serde(&[])?),
        _ => {
            let known: Vec<String> = KINDS.iter().map(|k| (*k).to_owned()).collect();
            return Err(value.error(unknown("a kind of middlebox", &kind, known.iter(), "use one of these")));
        }
    })
}
