//! What a run may do to a network that is not its own without an explicit word.

use super::{Config, LoadPlan};

/// Packets a second that need an explicit word (an Azure team met trouble at 10,000 on one connection and 100,000
/// on one address; half of that leaves room for others).
pub(crate) const POLITE_PER_CONNECTION: f64 = 5_000.0;
pub(crate) const POLITE_IN_ALL: f64 = 50_000.0;

/// Payload of a full packet on Ethernet, in bytes: 1,500 less 20 for IP, 20 for TCP and 12 for its timestamp option.
const PACKET_PAYLOAD: u32 = 1_448;

/// Connections a second that need an explicit word. Each leaves its port in TIME-WAIT here for a minute (RFC 9293,
/// section 3.6.1; Linux: 60 s), and Linux has 28,232 such ports to an address unless told otherwise: a fifth of them.
const POLITE_CONNECTIONS: f64 = 100.0;

impl Config {
    /// Packets of a sample each way, on the average. A sample of one given size counts as one.
    fn packets_a_sample(&self) -> f64 {
        let packets: u64 = self.sizes.iter().map(|size| u64::from(size.div_ceil(PACKET_PAYLOAD))).sum();
        if self.sizes.is_empty() { 1.0 } else { packets as f64 / self.sizes.len() as f64 }
    }

    /// Whether the rate needs `--allow-high-rate`, given that not all targets are on this host; says why.
    pub(crate) fn impolite(&self) -> Option<String> {
        if self.allow_high_rate {
            return None;
        }
        let add = "add --allow-high-rate if the path is yours to load";
        let Some(rate) = self.rate_per_connection() else {
            return Some(format!("--ping-pong sends to another host as fast as it answers; {add}"));
        };
        if self.connect && rate * self.lanes() as f64 > POLITE_CONNECTIONS {
            let all = rate * self.lanes() as f64;
            return Some(format!(
                "{all:.0} connections/s is above the polite {POLITE_CONNECTIONS:.0}, each leaving a port in TIME-WAIT for a minute; {add}"
            ));
        }
        let what = if self.sizes.is_empty() { "samples" } else { "packets" };
        let rate = rate * self.packets_a_sample();
        let all = rate * self.lanes() as f64;
        if rate > POLITE_PER_CONNECTION {
            return Some(format!(
                "{rate:.0} {what}/s on one connection is above the polite {POLITE_PER_CONNECTION:.0}; {add}"
            ));
        }
        let (one_of_load, load) = match &self.load {
            None => (0.0, 0.0),
            Some(LoadPlan { bits_per_s: None, .. }) => {
                return Some(format!("--load max sends to another host as much as it takes; {add}"));
            }
            Some(LoadPlan { bits_per_s: Some(bits), connections, .. }) => {
                let packets = *bits as f64 / 8.0 / f64::from(PACKET_PAYLOAD);
                (packets / f64::from(*connections), packets)
            }
        };
        if one_of_load > POLITE_PER_CONNECTION {
            return Some(format!(
                "a load of {one_of_load:.0} packets/s on one connection is above the polite {POLITE_PER_CONNECTION:.0}; {add}, or share it with --load-connections"
            ));
        }
        let (all, what) = if load > 0.0 { (all + load, "packets") } else { (all, what) };
        if all > POLITE_IN_ALL {
            return Some(format!("{all:.0} {what}/s in all is above the polite {POLITE_IN_ALL:.0}; {add}"));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::from_line;

    #[test]
    fn loads_that_could_hurt_need_a_word() {
        assert!(from_line("h --every 100us").unwrap().impolite().is_some());
        assert!(from_line("h --every 1ms --connections 60").unwrap().impolite().is_some());
        assert!(from_line("h --every 1ms --connections 50").unwrap().impolite().is_none());
        assert!(from_line("h --ping-pong").unwrap().impolite().is_some());
        assert!(from_line("h:80 --connect --every 10ms").unwrap().impolite().is_none());
        assert!(from_line("h:80 --connect --every 5ms").unwrap().impolite().unwrap().contains("TIME-WAIT"));
        assert!(from_line("h:80 i:80 --connect --every 15ms").unwrap().impolite().is_some(), "both together");
        // A mebibyte is 725 packets, so that ten of them and ten of one a second are 7,260 packets.
        assert!(from_line("h --sizes 64,1MiB --every 100ms").unwrap().impolite().is_none());
        assert!(
            from_line("h --sizes 64,1MiB --every 50ms").unwrap().impolite().unwrap().contains("7260 packets")
        );
        // Four samples a millisecond of silence.
        assert!(from_line("h --idle-gap 1ms").unwrap().impolite().is_none());
        assert!(from_line("h --idle-gap 1ms --connections 13").unwrap().impolite().is_some());
        // 100 Mbit/s are 8,633 packets/s: too many for one connection, not for two.
        let load = |options: &str| from_line(&format!("h --load {options}")).unwrap().impolite();
        assert!(load("100Mbit").unwrap().contains("8633 packets/s on one connection"));
        assert_eq!(load("100Mbit --load-connections 2"), None);
        assert!(load("1Gbit --load-connections 100").unwrap().contains("in all"));
        assert!(
            load("570Mbit --load-connections 50 --every 1ms").unwrap().contains("in all"),
            "with the samples"
        );
        assert_eq!(load("570Mbit --load-connections 50"), None);
        assert!(load("max").unwrap().contains("--allow-high-rate"));
        assert_eq!(load("max --allow-high-rate"), None);
        assert!(from_line("h --ping-pong --allow-high-rate").unwrap().impolite().is_none());
    }
}
