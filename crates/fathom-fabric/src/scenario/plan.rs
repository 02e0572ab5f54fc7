//! From a scenario to the plan of a world.

use super::{Scenario, routes};
use crate::world::{HostPlan, Plan};

impl Scenario {
    /// The plan of this scenario's world.
    #[expect(
        clippy::missing_panics_doc,
        reason = "what cannot be built is refused when the scenario is read"
    )]
    pub fn plan(&self) -> Plan {
        let (legs, routes) = routes::lay(self).expect("checked when the scenario was read");
        let stages = self.middleboxes.iter().map(|middlebox| {
            let stage = middlebox.config.clone().build(&middlebox.name, &|node| self.resolve(node));
            (middlebox.name.clone(), stage.expect("built before, when the scenario was read"))
        });
        Plan {
            hosts: self
                .hosts
                .iter()
                .map(|host| HostPlan { name: host.name.clone(), addresses: host.addresses.clone() })
                .collect(),
            stages: stages.collect(),
            legs,
            routes,
            events: self.events.iter().map(|event| (event.at_ns, event.event.clone())).collect(),
            packet_log: self.packet_log,
        }
    }
}
