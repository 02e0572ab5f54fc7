//! The recording of a search (`--record`): what became of each connection, or of each step, and the result. It has no samples.

use super::args::Config;
use crate::exit::Failure;
use crate::output::tell;
use crate::probe::tool;
use fathom_core::event::{AGE_LIMIT_MODE, EventKind, IDLE_LIMIT_MODE, RATE_CEILING_MODE};
use fathom_core::limits::{Asked, Found, Limit};
use fathom_os::clock::anchor;
use fathom_os::host::HostFacts;
use fathom_os::interfaces;
use fathom_recording::{ClockAnchor, Keeper, Manifest, Recorder, ReflectorFacts};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::net::SocketAddr;

/// Makes the recording, where one is wanted, or says why it cannot be made.
pub(super) fn open(config: &Config, remote: SocketAddr) -> Result<Keeper, Failure> {
    let made = config.record.as_ref().map(|dir| Recorder::create(dir, manifest(config, remote)));
    let recorder = made.transpose().map_err(|e| Failure::run(e.to_string()))?;
    Ok(Keeper::new(recorder, anchor, |line| tell!("fathom: {line}")))
}

/// Writes the result and ends the recording; a failure where it is not whole.
pub(super) fn finish(keeper: Keeper, found: &Found, target: &str, remote: SocketAddr) -> Result<(), Failure> {
    let ended = keeper.finish(EventKind::LimitsEnded { result: found.json(target, Some(remote)) });
    ended.map_err(|e| Failure::run(format!("the recording is not whole: {e}")))
}

fn manifest(config: &Config, remote: SocketAddr) -> Manifest {
    let target = config.target.to_string();
    let label = config.label.as_deref().unwrap_or(&target);
    let mut manifest = Manifest::new(label, Timestamp::now(), tool());
    manifest.path.clone_from(&config.path);
    manifest.marks.clone_from(&config.marks);
    manifest.command = Some(crate::command_line::to_run_again());
    let settings = &config.settings;
    manifest.probe = match config.rate {
        Some(Asked { up_to_per_s, connections }) => json!({
            "mode": RATE_CEILING_MODE,
            "size": null,
            "interval_ns": null,
            "up_to_per_s": up_to_per_s,
            "connections": connections,
        }),
        None => json!({
            "mode": if config.limit == Limit::Age { AGE_LIMIT_MODE } else { IDLE_LIMIT_MODE },
            "size": null,
            "interval_ns": null,
            "up_to_ns": settings.up_to_ns,
            "per_length": settings.per_length,
            "resolution": settings.resolution,
            "keepalive_ns": settings.keepalive_ns,
            "one_way": settings.one_way,
            "connections": settings.connections.0,
        }),
    };
    // Without --source the interface is known to nobody before the first connection.
    let nic = config.source.and_then(|source| interfaces::towards(SocketAddr::new(source, 0), remote));
    manifest.host = serde_json::to_value(HostFacts::gather(nic.as_deref())).unwrap_or(Value::Null);
    manifest.clock_anchors.push(ClockAnchor::new(anchor(), false));
    manifest.reflector =
        ReflectorFacts { address: target, resolved: Some(remote.to_string()), ..ReflectorFacts::default() };
    manifest
}
