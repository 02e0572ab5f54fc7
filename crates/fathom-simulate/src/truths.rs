//! `truth.jsonl`, as `fathom fabric up --truth` writes it, on the simulation's clock.

use crate::error::Error;
use crate::recorded::{Made, at};
use fathom_core::clock::Anchor;
use fathom_fabric::scenario::Scenario;
use fathom_os::replace::create;
use jiff::Timestamp;
use serde_json::json;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

pub(crate) struct Truths {
    lines: BufWriter<File>,
    path: PathBuf,
    clock: Anchor,
}

impl Truths {
    pub(crate) fn create(
        dir: &Path,
        scenario: &Scenario,
        seed: u64,
        clock: Anchor,
        made: &Made,
    ) -> Result<Self, Error> {
        let path = dir.join("truth.jsonl");
        let cannot = |e: io::Error| {
            Error::Failed(format!(
                "cannot create {}: {e}; name a new directory with --record",
                path.display()
            ))
        };
        fs::create_dir_all(dir).map_err(cannot)?;
        let lines = BufWriter::new(create(&path, 0o600).map_err(cannot)?);
        let mut truths = Self { lines, path: path.clone(), clock };
        truths.line(
            0,
            &json!({
                "place": "fabric", "kind": "truth.started", "fathom": made.tool.version,
                "scenario": scenario.name, "seed": seed, "clock": "virtual",
            }),
        )?;
        truths.line(
            0,
            &json!({
                "place": "fabric", "kind": "clock.anchored",
                "anchor_mono_ns": clock.mono_ns, "anchor_utc_ns": clock.utc_ns,
            }),
        )?;
        Ok(truths)
    }

    pub(crate) fn line(&mut self, mono_ns: u64, what: &impl serde::Serialize) -> Result<(), Error> {
        #[derive(serde::Serialize)]
        struct Line<'a, T> {
            at: Timestamp,
            mono_ns: u64,
            #[serde(flatten)]
            rest: &'a T,
        }
        serde_json::to_writer(&mut self.lines, &Line { at: at(self.clock, mono_ns), mono_ns, rest: what })
            .map_err(io::Error::from)
            .and_then(|()| self.lines.write_all(b"\n"))
            .map_err(|e| Error::Failed(format!("cannot write {}: {e}", self.path.display())))
    }

    pub(crate) fn finish(mut self, now_ns: u64) -> Result<(), Error> {
        self.line(now_ns, &json!({ "place": "fabric", "kind": "truth.ended" }))?;
        let path = self.path;
        self.lines.flush().map_err(|e| Error::Failed(format!("cannot write {}: {e}", path.display())))
    }
}
