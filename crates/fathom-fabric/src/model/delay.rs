//! Propagation and jitter, ready to draw from.

use rand::Rng as _;
use rand_distr::StandardNormal;
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

use super::table::Table;
use super::{PathModel, Reorder};

/// How alike the jitter of successive packets is: the correlation of the normal numbers behind it, which form an
/// autoregressive process of the first order. Of the jitter itself the rank correlation is nearly as large, and for a normal
/// jitter the correlation is the same.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Correlation {
    /// Each packet for itself.
    #[default]
    None,
    /// So much from one packet to the next, whenever it comes; -1 to 1, both excluded.
    PerPacket(f64),
    /// By the time between two packets: exp(-Δ / τ), with this τ in ns.
    InTime(u64),
}

impl Correlation {
    pub(super) fn validate(self) -> Result<(), String> {
        match self {
            Self::PerPacket(rho) if !(rho > -1.0 && rho < 1.0) => {
                Err(format!("correlation is {rho}; it must lie between -1 and 1, both excluded"))
            }
            Self::InTime(0) => Err("the time of the correlation is 0; leave it out for none".to_owned()),
            _ => Ok(()),
        }
    }
}

/// A delay to draw from, with the state of its correlation.
#[derive(Debug, Clone)]
pub struct Delay {
    base_ns: u64,
    jitter: Option<Table>,
    correlation: Correlation,
    reorder: Option<Reorder>,
    /// The last normal number and when it was drawn.
    last: Option<(f64, u64)>,
}

impl Delay {
    /// Of a valid model.
    pub(super) fn new(model: &PathModel) -> Self {
        Self {
            base_ns: model.delay_ns,
            jitter: model.jitter.table(),
            correlation: model.correlation,
            reorder: model.reorder.filter(|reorder| reorder.share > 0.0),
            last: None,
        }
    }

    /// The least that a packet takes, ns.
    pub fn min_ns(&self) -> u64 {
        self.base_ns
    }

    /// Mean over all packets, those that `reorder` makes late included; ns.
    pub fn mean_ns(&self) -> f64 {
        let late = self.reorder.map_or(0.0, |reorder| reorder.share * reorder.late_ns as f64);
        self.base_ns as f64 + self.jitter.as_ref().map_or(0.0, Table::mean) + late
    }

    /// What a share `p` of packets do not exceed, ns.
    pub fn quantile_ns(&self, p: f64) -> f64 {
        let base = self.base_ns as f64;
        let on_time = |p: f64| self.jitter.as_ref().map_or(0.0, |table| table.quantile(p));
        let Some(Reorder { share, late_ns }) = self.reorder else { return base + on_time(p) };
        // Two copies of the same distribution, one shifted: its distribution function, inverted by halving.
        let late = late_ns as f64;
        let below = |x: f64| {
            let part = |x: f64| match &self.jitter {
                Some(table) => table.shares(x).1,
                None => f64::from(x >= 0.0),
            };
            (1.0 - share).mul_add(part(x), share * part(x - late))
        };
        let (mut low, mut high) = (0.0, on_time(1.0) + late);
        for _ in 0..64 {
            let middle = f64::midpoint(low, high);
            if below(middle) >= p { high = middle } else { low = middle }
        }
        base + high
    }

    /// The delay of a packet that enters at `now_ns`; what [`PathModel::reorder`] adds is not in it.
    pub fn draw(&mut self, now_ns: u64, random: &mut Pcg64) -> u64 {
        let Some(table) = &self.jitter else { return self.base_ns };
        let fresh: f64 = random.sample(StandardNormal);
        let z = match (self.last, self.correlation) {
            (None, _) | (_, Correlation::None) => fresh,
            (Some((last, _)), Correlation::PerPacket(rho)) => {
                rho.mul_add(last, (1.0 - rho * rho).sqrt() * fresh)
            }
            (Some((last, then_ns)), Correlation::InTime(tau_ns)) => {
                let rho = (-(now_ns.saturating_sub(then_ns) as f64) / tau_ns as f64).exp();
                rho.mul_add(last, (1.0 - rho * rho).sqrt() * fresh)
            }
        };
        self.last = Some((z, now_ns));
        self.base_ns.saturating_add(table.at(z).round() as u64)
    }
}
