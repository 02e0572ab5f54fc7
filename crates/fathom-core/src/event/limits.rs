//! What the events of a search for limits (`fathom limits`) tell of connections.

use super::ceiling::RATE_CEILING_MODE;
use serde::{Deserialize, Serialize};

/// The mode of a search for the idle limit, as recordings name it.
pub const IDLE_LIMIT_MODE: &str = "tcp-idle-limit";
/// The mode of a search for the age limit.
pub const AGE_LIMIT_MODE: &str = "tcp-age-limit";

/// What a search of this mode measures with, in words; `None`: it is no search for limits. It has no samples.
pub fn sought_with(mode: &str) -> Option<&'static str> {
    match mode {
        IDLE_LIMIT_MODE => Some("connections that were left idle"),
        AGE_LIMIT_MODE => Some("connections that were kept in use"),
        RATE_CEILING_MODE => Some("packets at rising rates"),
        _ => None,
    }
}

/// Which limit is searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// For how long a connection may be idle.
    #[default]
    Idle,
    /// How old a connection may become, though it is in use.
    Age,
}

/// Traffic in one direction on connections that are idle otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OneWay {
    /// From one small segment to the next, in ns.
    pub every_ns: u64,
    /// Who sends them; the other end only acknowledges.
    pub from: Side,
}

/// An end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The host that searches.
    #[default]
    Here,
    /// The reflector.
    There,
}

/// How a connection under test died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Death {
    /// Its request was never answered, while fresh connections were.
    Silent,
    /// Its request was acknowledged and never answered, while fresh connections were answered: the path carried it.
    NotAnswered,
    /// A RST came while it was idle.
    ResetWhileIdle,
    /// A RST answered its request.
    ResetOnRequest,
    /// A FIN came while it was idle.
    ClosedWhileIdle,
    /// A FIN answered its request.
    ClosedOnRequest,
    /// An error of another kind.
    Other,
}

/// A search for limits began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitsBegan {
    /// Which limit is searched for.
    pub limit: Limit,
    /// The longest idleness, or the highest age, that is tried, in ns.
    pub up_to_ns: u64,
    /// Connections that are idle for each length, or that are to become so old.
    pub connections: u32,
    /// How often the kernel sends keepalives on them, in ns. Absent: it sends none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keepalive_ns: Option<u64>,
    /// Traffic in one direction that idle connections have. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way: Option<OneWay>,
}

/// What became of a connection under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Became {
    /// It was answered when its time was over.
    Survived,
    /// It died, and connections that were not under test did not.
    Died,
    /// Nothing can be said: it was asked while the path was down, or died together with all others.
    Void,
}

/// A connection in use that lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lived {
    /// Which.
    pub connection: u32,
    /// It lived for so long at the least, in ns: until it was sent the last request that it answered.
    pub least_ns: u64,
}

/// What happened in a search besides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Connections that were not under test died too: what died then is no limit's doing. It began anew with what was not
    /// known.
    AllDied {
        /// How one of them died.
        how: Death,
    },
    /// Nothing was answered.
    Outage {
        /// For so long at the most, in ns; `None`: it is not over.
        lasted_ns: Option<u64>,
        /// For so long at the least, in ns. Absent: not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        least_ns: Option<u64>,
        /// The first that was not answered was sent so long before this was known, in ns. Absent: not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        began_ago_ns: Option<u64>,
    },
    /// This host did not run.
    HostPaused {
        /// For so long, in ns.
        lasted_ns: u64,
    },
    /// Connections died of this idleness, in ns, and others that were idle for as long did not.
    NotRepeated {
        /// So long.
        idle_ns: u64,
    },
    /// Busy connections of different ages died at one moment: what ended them was no age limit.
    DiedTogether {
        /// So many.
        connections: u32,
    },
}

impl What {
    /// How long before it was known it began, in ns.
    pub fn began_ago_ns(&self) -> u64 {
        let Self::Outage { began_ago_ns, .. } = self else { return 0 };
        began_ago_ns.unwrap_or(0)
    }

    /// Whether nothing is answered yet.
    pub fn is_outage_that_goes_on(&self) -> bool {
        matches!(self, Self::Outage { lasted_ns: None, .. })
    }
}
