//! Microsoft.Data.SqlClient (.NET, SQL Server): ADO.NET connection strings.

use super::{Default, Key, Library, Names, Newer, always, half, on, round_below, shortest};
use crate::unit::{MIN, S, Unit};
use crate::version::{FIRST, Version};

const DEFAULTS: &str = "Microsoft.Data.SqlClient 6.1 to 7.1, DbConnectionStringDefaults.cs";

/// In every version, and no setting changes it: `TcpKeepAliveTime` in `SniTcpHandle.netcore.cs` (5.1.0 to 7.0.2).
const KEEPALIVE: i64 = 30 * S;

pub(super) static LIBRARY: Library = Library {
    name: "Microsoft.Data.SqlClient",
    keys: &[
        Key {
            name: "Load Balance Timeout",
            also: &["Connection Lifetime"],
            unit: Unit::Seconds,
            defaults: &[always(0, DEFAULTS)],
        },
        Key {
            name: "Connection Idle Timeout",
            also: &[],
            unit: Unit::Seconds,
            defaults: &[
                // Two sweeps, each 2 to 4 minutes after the other.
                Default {
                    since: FIRST,
                    value: 8 * MIN,
                    source: "Microsoft.Data.SqlClient 6.1.0, WaitHandleDbConnectionPool.cs: fixed",
                },
                Default {
                    since: Version(7, 1, 0),
                    value: 5 * MIN,
                    source: "Microsoft.Data.SqlClient 7.1.0-preview2, DbConnectionStringDefaults.cs",
                },
            ],
        },
        Key { name: "Min Pool Size", also: &[], unit: Unit::Count, defaults: &[always(0, DEFAULTS)] },
        Key { name: "Max Pool Size", also: &[], unit: Unit::Count, defaults: &[always(100, DEFAULTS)] },
        Key { name: "Pooling", also: &[], unit: Unit::Bool, defaults: &[always(1, DEFAULTS)] },
    ],
    other: &[
        "Application Intent",
        "ApplicationIntent",
        "Application Name",
        "App",
        "AttachDbFilename",
        "Extended Properties",
        "Initial File Name",
        "Attestation Protocol",
        "Authentication",
        "Column Encryption Setting",
        "ColumnEncryption",
        "Command Timeout",
        "Connection Reset",
        "Connect Retry Count",
        "ConnectRetryCount",
        "Connect Retry Interval",
        "ConnectRetryInterval",
        "Connect Timeout",
        "Connection Timeout",
        "Timeout",
        "ConnectTimeout",
        "Context Connection",
        "Current Language",
        "Language",
        "Data Source",
        "Server",
        "Address",
        "Addr",
        "Network Address",
        "Enclave Attestation Url",
        "Encrypt",
        "Enlist",
        "Failover Partner",
        "FailoverPartner",
        "Failover Partner SPN",
        "FailoverPartnerSPN",
        "Host Name In Certificate",
        "HostNameInCertificate",
        "Initial Catalog",
        "Database",
        "Integrated Security",
        "Trusted_Connection",
        "IP Address Preference",
        "IPAddressPreference",
        "Multiple Active Result Sets",
        "MultipleActiveResultSets",
        "Multi Subnet Failover",
        "MultiSubnetFailover",
        "Network Library",
        "Net",
        "Network",
        "Packet Size",
        "PacketSize",
        "Password",
        "Pwd",
        "Persist Security Info",
        "PersistSecurityInfo",
        "Pool Blocking Period",
        "PoolBlockingPeriod",
        "Replication",
        "Server Certificate",
        "ServerCertificate",
        "Server SPN",
        "ServerSPN",
        "Transaction Binding",
        "Transparent Network IP Resolution",
        "TransparentNetworkIPResolution",
        "Trust Server Certificate",
        "TrustServerCertificate",
        "Type System Version",
        "User ID",
        "UID",
        "User",
        "User Instance",
        "Workstation ID",
        "WSID",
        "WorkstationID",
    ],
    strict: |_| true,
    names: Names::ANY_CASE,
    newer: &[Newer { name: "Connection Idle Timeout", since: Version(7, 1, 0), only_named: true }],
    idle_by: "Connection Idle Timeout",
    age_by: Some("Load Balance Timeout"),
    idle: |values| {
        if values.get("Pooling") == 0 {
            return shortest(&[(Some(0), "Pooling")]);
        }
        // Since 7.1.0 one that was unused for longer is never lent.
        let since_7_1 = values.version >= Version(7, 1, 0);
        let idle = on(values.get("Connection Idle Timeout"));
        let idle = idle.filter(|_| since_7_1 || values.get("Min Pool Size") == 0);
        shortest(&[(Some(KEEPALIVE), "its TCP keepalive every 30 s"), (idle, "Connection Idle Timeout")])
    },
    age: |values| {
        if values.get("Pooling") == 0 {
            return shortest(&[(Some(0), "Pooling")]);
        }
        // The age is looked at when a connection comes back, so it may be idle for a while beyond it.
        let idle = on(values.get("Connection Idle Timeout"))
            .filter(|_| values.version >= Version(7, 1, 0) || values.get("Min Pool Size") == 0);
        let life =
            on(values.get("Load Balance Timeout")).zip(idle).map(|(life, idle)| life.saturating_add(idle));
        shortest(&[(life, "Load Balance Timeout and the idle time after it")])
    },
    idle_remedies: |values, limit| {
        let idle = ("Connection Idle Timeout", half(limit, Unit::Seconds));
        // Before 7.1.0 there is no such setting.
        if values.version >= Version(7, 1, 0) { vec![vec![idle]] } else { Vec::new() }
    },
    age_remedies: |values, limit| {
        let life = (limit / 10 * 9).saturating_sub(values.get("Connection Idle Timeout"));
        let life = ("Load Balance Timeout", round_below(life, Unit::Seconds));
        let mut all = vec![vec![life], vec![life, ("Min Pool Size", 0)]];
        if values.version >= Version(7, 1, 0) {
            let quarter = round_below(limit / 4, Unit::Seconds);
            all.push(vec![
                ("Load Balance Timeout", half(limit, Unit::Seconds)),
                ("Connection Idle Timeout", quarter),
            ]);
        }
        all
    },
    contradictions: |values| {
        let mut all = Vec::new();
        if values.get("Max Pool Size") < values.get("Min Pool Size") {
            let why = "Min Pool Size is above Max Pool Size: SqlClient refuses it";
            all.push(("Min Pool Size", why.to_owned()));
        }
        for name in ["Load Balance Timeout", "Connection Idle Timeout"] {
            if values.get(name) < 0 {
                all.push((name, format!("{name} is below 0: SqlClient refuses it")));
            }
        }
        all
    },
    cost: "SqlClient tries a command on a dead connection anew where Connect Retry Count lets it, once it has noticed",
    too_short: ["", ""],
    elsewhere: [
        "before 7.1.0 SqlClient has no setting for it, and since then one of whole seconds: set Pooling=false, or send a request on each connection more often than that",
        "the age is looked at only when a connection comes back, and up to 8 minutes of idleness follow: clear the pool (SqlConnection.ClearPool) more often than the limit",
    ],
    notes: &[],
};
