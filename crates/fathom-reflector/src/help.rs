//! Help from the machine, each kind told as it was granted.

use crate::config::Config;
use crate::error::Error;
use crate::talk::note;
use fathom_os::assist::{CpuLatencyHold, hold_cpu_latency, pin_to_cpu, raise_open_files};

/// Descriptors that are not connections: standard streams, listeners, the poller, and some for libraries.
const DESCRIPTORS_KEPT: u64 = 32;

/// Claims what the user asked for; what is returned must live as long as the run.
pub(crate) fn claim(config: &Config) -> Result<Option<CpuLatencyHold>, Error> {
    if let Some(cpu) = config.cpu {
        let granted = pin_to_cpu(cpu).map_err(|e| Error::new(format!("--cpu {cpu}: {e}")))?;
        note(&granted);
    }
    let hold = match config.cpu_latency_us {
        Some(us) => Some(hold_cpu_latency(us).map_err(|e| Error::new(format!("--cpu-latency {us}: {e}")))?),
        None => None,
    };
    if let Some(hold) = &hold {
        note(&hold.description());
    }
    if config.spin {
        note("spinning: one CPU is busy as long as this runs");
    }
    Ok(hold)
}

/// How many connections to serve at once: what was asked for, or what the open-files limit allows once raised.
pub(crate) fn connection_limit(asked: Option<u32>) -> u32 {
    let (files, _) = raise_open_files();
    let possible = u32::try_from(files.saturating_sub(DESCRIPTORS_KEPT)).unwrap_or(u32::MAX).max(1);
    let Some(asked) = asked else { return possible };
    if asked > possible {
        note(&format!(
            "--max-connections {asked} is more than the open-files limit of {files} allows (about {possible}); raise \
             it with ulimit -n or LimitNOFILE="
        ));
    }
    asked
}
