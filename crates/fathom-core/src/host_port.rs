//! A host and perhaps a port, as people write them on a command line.

use std::net::{IpAddr, Ipv6Addr};

/// Splits `HOST`, `HOST:PORT`, `IPV6`, `[IPV6]` or `[IPV6]:PORT`. An IPv6 address may end with its interface
/// (`fe80::1%eth0`). The error says what is wrong, without quoting the text.
pub fn split(text: &str) -> Result<(&str, Option<u16>), String> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let Some((host, behind)) = rest.split_once(']') else {
            return Err("the bracket is not closed".to_owned());
        };
        match behind.strip_prefix(':') {
            None if !behind.is_empty() => {
                return Err(format!("expected a colon and a port, found {behind}"));
            }
            port => (host, port),
        }
    } else if text.parse::<IpAddr>().is_ok() || is_ipv6(text) {
        (text, None)
    } else {
        match text.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err("an IPv6 address with a port needs brackets".to_owned());
            }
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    if host.is_empty() || host.contains(char::is_whitespace) || host.contains('/') {
        return Err("the host is missing or has invalid characters".to_owned());
    }
    // A resolver takes 7007 for the address 0.0.27.95.
    if is_number(host) {
        return Err(format!("a bare number is not a host; a port follows its host, as in HOST:{host}"));
    }
    let port = match port.map(str::parse) {
        None => None,
        Some(Ok(port)) if port != 0 => Some(port),
        Some(_) if port == Some("") => return Err("the port behind the colon is missing".to_owned()),
        Some(_) => return Err(format!("{} is not a port (1 to 65535)", port.unwrap_or_default())),
    };
    Ok((host, port))
}

/// True for a bare number, decimal or hexadecimal.
pub fn is_number(text: &str) -> bool {
    let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    match hexadecimal {
        Some(digits) => digits.bytes().all(|digit| digit.is_ascii_hexdigit()),
        None => !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit()),
    }
}

/// True for an IPv6 address, with or without its interface.
fn is_ipv6(text: &str) -> bool {
    let (address, interface) = text.split_once('%').unwrap_or((text, "lo"));
    address.parse::<Ipv6Addr>().is_ok() && !interface.is_empty() && !interface.contains(':')
}

/// The host, and its port if given, as a readable part of a file name: `::1` becomes `0--1`, and `[fe80::1%eth0]:7`
/// becomes `fe80--1.eth0_7`. `None`: the text has no IPv6 address.
pub fn ipv6_in_file_name(text: &str) -> Option<String> {
    let (before, address, behind) = if is_ipv6(text) {
        ("", text, String::new())
    } else {
        let (before, rest) = text.split_once('[')?;
        let (address, behind) = rest.split_once(']')?;
        (before, address, behind.replacen(':', "_", 1))
    };
    if !is_ipv6(address) {
        return None;
    }
    let (address, interface) = address.split_once('%').map_or((address, None), |(a, i)| (a, Some(i)));
    // Each address has one spelling. A dash at either end of the name would be lost.
    let mut spelled = address.parse::<Ipv6Addr>().ok()?.to_string();
    if spelled.starts_with("::") {
        spelled.insert(0, '0');
    }
    if spelled.ends_with("::") {
        spelled.push('0');
    }
    let interface = interface.map_or_else(String::new, |interface| format!(".{interface}"));
    Some(format!("{before}{}{interface}{behind}", spelled.replace(':', "-")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hosts_and_ports_in_every_form() {
        for (text, host, port) in [
            ("db1", "db1", None),
            ("db1:7", "db1", Some(7)),
            ("10.0.0.4:7", "10.0.0.4", Some(7)),
            ("::1", "::1", None),
            ("[::1]", "::1", None),
            ("[::1]:65535", "::1", Some(65_535)),
            ("fe80::1%eth0", "fe80::1%eth0", None),
            ("[fe80::1%eth0]:7", "fe80::1%eth0", Some(7)),
            ("7up", "7up", None),
            ("1.example", "1.example", None),
        ] {
            assert_eq!(split(text), Ok((host, port)), "{text}");
        }
    }

    #[test]
    fn mistakes_in_hosts_name_the_remedy() {
        for (text, told) in [
            ("", "host is missing"),
            (":7", "host is missing"),
            ("a b", "characters"),
            ("a/b", "characters"),
            ("db1:", "behind the colon is missing"),
            ("db1:0", "0 is not a port"),
            ("db1:99999", "99999 is not a port"),
            ("[::1", "not closed"),
            ("[::1]7", "a colon and a port"),
            ("fe80::1%eth0:7", "brackets"),
            ("fe80::1%", "brackets"),
            ("7007", "as in HOST:7007"),
            ("7007:7", "bare number"),
            ("0x1b5f", "bare number"),
        ] {
            assert!(split(text).is_err_and(|why| why.contains(told)), "{text}: {:?}", split(text));
        }
    }

    #[test]
    fn file_names_show_ipv6_addresses() {
        for (text, name) in [
            ("::1", Some("0--1")),
            ("0:0::1", Some("0--1")),
            ("fe80::", Some("fe80--0")),
            ("[::1]:7", Some("0--1_7")),
            ("[fe80::1%eth0]:7", Some("fe80--1.eth0_7")),
            ("zone-[::1]:7", Some("zone-0--1_7")),
            ("db1:7", None),
            ("[rack] 7", None),
        ] {
            assert_eq!(ipv6_in_file_name(text).as_deref(), name, "{text}");
        }
    }

    proptest! {
        /// Recordings begun in the same second need different names, even if their targets look alike.
        #[test]
        fn different_ipv6_targets_have_different_names(
            a in any::<(u8, u8, Option<u16>)>(), b in any::<(u8, u8, Option<u16>)>()
        ) {
            // The addresses use few bits, at both ends, so that parts often coincide.
            let text = |(high, low, port): (u8, u8, Option<u16>)| {
                let address = Ipv6Addr::new(u16::from(high % 4), 0, 0, 0, 0, 0, u16::from(low % 2), u16::from(low % 16));
                port.map_or_else(|| address.to_string(), |port| format!("[{address}]:{}", port % 16))
            };
            let name = |of| ipv6_in_file_name(&text(of)).expect("an IPv6 target");
            prop_assert_eq!(text(a) == text(b), name(a) == name(b));
        }
    }
}
