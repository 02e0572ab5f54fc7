//! How long a packet is inside a middlebox.

use std::fmt;

use rand_pcg::Pcg64;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::model::{Correlation, Delay, Jitter, PathModel};
use fathom_core::units::{duration_ns, serde_ns};

/// The time that a middlebox adds to a packet one way: the least, and beyond it a gamma distribution (skewed as queues
/// are) with what is left of the mean. Packets of one flow and direction keep their order.
///
/// In a scenario one duration (`transit = "50us"`: always the same) or a table
/// (`transit = { min = "30us", mean = "50us", sd = "40us" }`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Transit {
    /// The least, ns.
    #[serde(rename = "min", with = "serde_ns")]
    pub min_ns: u64,
    /// The mean, ns.
    #[serde(rename = "mean", with = "serde_ns")]
    pub mean_ns: u64,
    /// The standard deviation, ns; 0 where min and mean are the same.
    #[serde(rename = "sd", with = "serde_ns")]
    pub sd_ns: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default, with = "serde_ns")]
    min: u64,
    #[serde(with = "serde_ns")]
    mean: u64,
    #[serde(default, with = "serde_ns")]
    sd: u64,
}

impl<'de> Deserialize<'de> for Transit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Transit;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time such as \"50us\", or a table with min, mean and sd")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Transit, E> {
                duration_ns(text).map(Transit::constant).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Transit, A::Error> {
                let Written { min, mean, sd } = Written::deserialize(MapAccessDeserializer::new(map))?;
                let transit = Transit { min_ns: min, mean_ns: mean, sd_ns: sd };
                transit.time().map_err(serde::de::Error::custom)?;
                Ok(transit)
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl Transit {
    /// The same for every packet, ns.
    pub fn constant(ns: u64) -> Self {
        Self { min_ns: ns, mean_ns: ns, sd_ns: 0 }
    }

    /// Ready to draw from.
    pub fn time(self) -> Result<TransitTime, String> {
        let Self { min_ns, mean_ns, sd_ns } = self;
        if mean_ns < min_ns {
            return Err(format!("the mean transit time ({mean_ns} ns) lies below the least ({min_ns} ns)"));
        }
        if (mean_ns == min_ns) != (sd_ns == 0) {
            return Err("a transit time varies by both: a mean above the least, and an sd above 0".to_owned());
        }
        let jitter = match sd_ns {
            0 => Jitter::None,
            _ => Jitter::Gamma { mean_ns: (mean_ns - min_ns) as f64, sd_ns: sd_ns as f64 },
        };
        let model =
            PathModel { delay_ns: min_ns, jitter, correlation: Correlation::None, ..PathModel::default() };
        Ok(TransitTime { delay: model.delay()? })
    }
}

/// A [`Transit`], ready to draw from.
#[derive(Debug)]
pub struct TransitTime {
    delay: Delay,
}

impl TransitTime {
    /// For a packet that comes now, ns.
    pub fn draw_ns(&mut self, now_ns: u64, random: &mut Pcg64) -> u64 {
        self.delay.draw(now_ns, random)
    }
}
