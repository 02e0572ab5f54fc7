//! Figures and lists as people write them.

use jiff::Timestamp;

use crate::text::noun;

/// `1 sample`, `30 samples`, `1,800 samples`.
pub(super) fn count(n: u64, one: &str) -> String {
    let digits = n.to_string();
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{grouped} {}", noun(n, one))
}

/// `1 sample was`, `30 samples were`.
pub(super) fn were(n: u64) -> &'static str {
    if n == 1 { "was" } else { "were" }
}

/// What a host's own accounts say of a pause.
pub(super) fn accounts(reason: &str) -> String {
    match reason {
        "stopped" => {
            "it was not able to run: the process was stopped, or its control group or the whole machine frozen".into()
        }
        "host_scheduling" => {
            "it was able to run and got no processor: the host ran others in its place, or its control group had used up its quota".into()
        }
        "steal" => "the hypervisor ran others in place of this machine".into(),
        other => other.to_owned(),
    }
}

/// `once`, `twice`, `50 times`.
pub(super) fn times(n: u64) -> String {
    match n {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        _ => count(n, "time"),
    }
}

/// `#0, #1 and #2`; of many the first ones and how many more.
pub(super) fn ordinals(connections: &[u32]) -> String {
    const SHOWN: usize = 8;
    let mut names: Vec<String> = connections.iter().take(SHOWN).map(|n| format!("#{n}")).collect();
    if connections.len() > SHOWN {
        names.push(format!("{} more", connections.len() - SHOWN));
    }
    list(&names)
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn list(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [all @ .., last] => format!("{} and {last}", all.join(", ")),
    }
}

/// What an `address.changed` event says, from its fields.
pub fn changed(what: &str, from: &str, to: &str) -> String {
    match what {
        "remote" => format!("the target's name led to {to}, no longer to {from}"),
        "source" => format!("connections came from {to} here, no longer from {from}"),
        "interface" => format!("packets left by interface {to}, no longer by {from}"),
        "driver" => format!("the interface's driver was {to}, no longer {from}"),
        "virtual_function" if to == "yes" => {
            "the interface had a virtual function of the card again, or now".to_owned()
        }
        "virtual_function" => "the interface had no virtual function of the card any more".to_owned(),
        "lower" => format!("the interface stood upon {to}, no longer upon {from}"),
        "mtu" => format!("the interface's largest packet was {to} bytes, no longer {from}"),
        "tso" | "gso" | "gro" | "lro" => {
            format!("the interface's {} was {to}, no longer {from}", what.to_uppercase())
        }
        other => format!("{other} changed from {from} to {to}"),
    }
}

/// Hours, minutes and seconds, UTC.
pub(super) fn clock(at: Timestamp) -> String {
    at.strftime("%H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        for (n, text) in [(0, "0 samples"), (1, "1 sample"), (999, "999 samples"), (40_500, "40,500 samples")]
        {
            assert_eq!(count(n, "sample"), text);
        }
        assert_eq!(ordinals(&[0, 4, 5]), "#0, #4 and #5");
        assert_eq!(ordinals(&(0..10).collect::<Vec<_>>()), "#0, #1, #2, #3, #4, #5, #6, #7 and 2 more");
    }
}
