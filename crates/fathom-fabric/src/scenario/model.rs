//! What a path does to packets, from its keys: `rtt`, or `both`, or `forward` and `backward`.

use super::error::ScenarioError;
use super::read::{Table, Value, unknown};
use super::rtt::{Published, RoundTrip};
use crate::model::{Correlation, Jitter, Loss, Part, PathModel, Reorder};
use fathom_core::histogram::Histogram;

/// A way to the round trips of a recording by its directory.
pub(super) type Load<'a> = &'a dyn Fn(&str) -> Result<Histogram, String>;

/// The models of both directions.
pub(super) fn both(table: &mut Table<'_>, load: Load<'_>) -> Result<(PathModel, PathModel), ScenarioError> {
    let rtt = table.take("rtt");
    let both = table.take("both");
    let ways = (table.take("forward"), table.take("backward"));
    match (rtt, both, ways) {
        (Some(rtt), None, (None, None)) => {
            let way = published(rtt)?;
            let way = refine(table, way, load)?;
            Ok((way.clone(), way))
        }
        (None, Some(both), (None, None)) => {
            let way = direction(both, load)?;
            Ok((way.clone(), way))
        }
        (None, None, (Some(forward), Some(backward))) => Ok((direction(forward, load)?, direction(backward, load)?)),
        (None, None, (None, None)) => Err(table.error(
            "has no model; add rtt = { mean = \"315us\" }, or both = { delay = \"150us\" }, or forward and backward",
        )),
        (None, None, _) => Err(table.error("has one of `forward` and `backward`; add the other, or write both = {...}")),
        _ => Err(table.error("has more than one of `rtt`, `both`, and `forward` with `backward`; keep one")),
    }
}

/// One direction as fitted to figures of a round trip.
fn published(value: Value<'_>) -> Result<PathModel, ScenarioError> {
    let place = value.place();
    let mut table = value.table()?;
    let mut take = |key| table.take(key).map(|v| v.duration_ns()).transpose();
    let published = Published {
        min_ns: take("min")?,
        mean_ns: take("mean")?,
        sd_ns: take("sd")?,
        p50_ns: take("p50")?,
        p95_ns: take("p95")?,
        p99_ns: take("p99")?,
        max_ns: take("max")?,
    };
    table.finish()?;
    let model = RoundTrip::fit(&published).map_err(|e| place.error(format_args!("cannot be: {e}")))?;
    Ok(model.way())
}

fn direction(value: Value<'_>, load: Load<'_>) -> Result<PathModel, ScenarioError> {
    let mut table = value.table()?;
    let mut model = PathModel::default();
    if let Some(delay) = table.take("delay") {
        model.delay_ns = delay.duration_ns()?;
    }
    if let Some(value) = table.take("jitter") {
        model.jitter = jitter(value.table()?, load)?;
    }
    let model = refine(&mut table, model, load)?;
    table.finish()?;
    Ok(model)
}

/// Everything but delay and jitter, which `rtt` gives too.
fn refine(table: &mut Table<'_>, mut model: PathModel, _load: Load<'_>) -> Result<PathModel, ScenarioError> {
    if let Some(value) = table.take("correlation") {
        model.correlation = if value.is_text() {
            Correlation::InTime(value.duration_ns()?)
        } else {
            Correlation::PerPacket(value.number()?)
        };
    }
    if let Some(value) = table.take("loss") {
        model.loss = loss(value)?;
    }
    if let Some(value) = table.take("duplicate") {
        model.duplicate = value.share()?;
    }
    if let Some(value) = table.take("reorder") {
        let mut table = value.table()?;
        model.reorder = Some(Reorder {
            share: table.require("share", "0.01")?.share()?,
            late_ns: table.require("late", "\"1ms\"")?.duration_ns()?,
        });
        table.finish()?;
    }
    model.rate_bits_per_s =
        table.take("rate").map(|v| v.parsed(fathom_core::units::bits_per_s)).transpose()?;
    model.queue_bytes = table.take("queue").map(|v| v.size()).transpose()?;
    if let Some(value) = table.take("mtu") {
        let mtu = value.size()?;
        model.mtu = Some(
            u16::try_from(mtu)
                .map_err(|_| value.error(format_args!("must be at most 65535 bytes, not {mtu}")))?,
        );
    }
    // What the model itself does not allow; the mistakes of single values were told above, at their places.
    model.validate().map_err(|e| table.error(format_args!("cannot be: {e}")))?;
    Ok(model)
}

fn loss(value: Value<'_>) -> Result<Loss, ScenarioError> {
    if !value.is_table() {
        return Ok(Loss::Independent { share: value.share()? });
    }
    let mut table = value.table()?;
    let model = table.require("model", "\"gilbert-elliott\"")?;
    let name = model.text()?.value;
    if name != "gilbert-elliott" {
        return Err(model.error(format_args!(
            "must be \"gilbert-elliott\", not \"{name}\"; for independent loss write loss = 0.01"
        )));
    }
    let loss = Loss::GilbertElliott {
        enter: table.require("enter", "0.001")?.share()?,
        leave: table.require("leave", "0.2")?.share()?,
        loss_good: table.take("good").map_or(Ok(0.0), |v| v.share())?,
        loss_bad: table.take("bad").map_or(Ok(1.0), |v| v.share())?,
    };
    table.finish()?;
    Ok(loss)
}

const DISTRIBUTIONS: [&str; 9] =
    ["constant", "uniform", "normal", "gamma", "spiked-gamma", "lognormal", "pareto", "mixture", "empirical"];

fn jitter(mut table: Table<'_>, load: Load<'_>) -> Result<Jitter, ScenarioError> {
    let value = table.require("distribution", "\"gamma\"")?;
    let name = value.text()?.value;
    let ns = |table: &mut Table<'_>, key: &'static str| -> Result<f64, ScenarioError> {
        Ok(table.require(key, "\"20us\"")?.duration_ns()? as f64)
    };
    let jitter = match name.as_str() {
        "constant" => Jitter::Constant { value_ns: ns(&mut table, "value")? },
        "uniform" => Jitter::Uniform { low_ns: ns(&mut table, "low")?, high_ns: ns(&mut table, "high")? },
        "normal" => Jitter::Normal { mean_ns: ns(&mut table, "mean")?, sd_ns: ns(&mut table, "sd")? },
        "gamma" => Jitter::Gamma { mean_ns: ns(&mut table, "mean")?, sd_ns: ns(&mut table, "sd")? },
        "spiked-gamma" => Jitter::SpikedGamma {
            mean_ns: ns(&mut table, "mean")?,
            sd_ns: ns(&mut table, "sd")?,
            probability: table.require("probability", "0.01")?.share()?,
            spike_mean_ns: ns(&mut table, "spike-mean")?,
        },
        "lognormal" => Jitter::Lognormal { mean_ns: ns(&mut table, "mean")?, sd_ns: ns(&mut table, "sd")? },
        "pareto" => Jitter::Pareto {
            scale_ns: ns(&mut table, "scale")?,
            shape: table.require("shape", "2.5")?.number()?,
        },
        "mixture" => {
            let mut parts = Vec::new();
            for part in table.require("parts", "[{ weight = 1, distribution = \"gamma\", ... }]")?.list()? {
                let mut part = part.table()?;
                let weight = part.require("weight", "1")?.number()?;
                parts.push(Part { weight, jitter: jitter(part, load)? });
            }
            Jitter::Mixture { parts }
        }
        "empirical" => {
            let recording = table.require("recording", "\"recordings/same-zone\"")?;
            let histogram = recording.parsed(load)?;
            let jitter = Jitter::empirical(&histogram);
            if histogram.count() == 0 {
                return Err(recording.error("holds no round trips"));
            }
            jitter
        }
        _ => {
            let known: Vec<String> = DISTRIBUTIONS.iter().map(|d| (*d).to_owned()).collect();
            return Err(value.error(unknown("a distribution", &name, known.iter(), "use one of these")));
        }
    };
    table.finish()?;
    Ok(jitter)
}
