//! Packets that do not arrive.

use rand::Rng as _;
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

use super::share;

/// A model of loss.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "model", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Loss {
    /// Every packet arrives.
    #[default]
    None,
    /// Each packet for itself.
    Independent {
        /// Share lost, 0 to 1.
        share: f64,
    },
    /// Bursts: a Markov chain of two states that steps with each packet (Gilbert, "Capacity of a burst-noise channel",
    /// 1960; Elliott, "Estimates of error rates for codes on burst-noise channels", 1963). It begins in the good one.
    GilbertElliott {
        /// Probability per packet of going from good to bad.
        enter: f64,
        /// Probability per packet of going from bad to good: bad lasts 1 / `leave` packets on average.
        leave: f64,
        /// Share lost in the good state.
        loss_good: f64,
        /// Share lost in the bad state.
        loss_bad: f64,
    },
}

impl Loss {
    pub(super) fn validate(&self) -> Result<(), String> {
        match *self {
            Self::None => Ok(()),
            Self::Independent { share: lost } => share("loss", lost),
            Self::GilbertElliott { enter, leave, loss_good, loss_bad } => {
                share("enter of the loss model", enter)?;
                share("leave of the loss model", leave)?;
                share("loss_good", loss_good)?;
                share("loss_bad", loss_bad)
            }
        }
    }

    /// Share of packets lost in the long run.
    pub fn mean(&self) -> f64 {
        match *self {
            Self::None => 0.0,
            Self::Independent { share } => share,
            Self::GilbertElliott { enter, leave, loss_good, loss_bad } => {
                if enter == 0.0 {
                    return loss_good;
                }
                // The chain's stationary distribution.
                let bad = enter / (enter + leave);
                (1.0 - bad) * loss_good + bad * loss_bad
            }
        }
    }

    /// Whether the next packet is lost. `bad` is the chain's state.
    pub(super) fn loses(&self, bad: &mut bool, random: &mut Pcg64) -> bool {
        match *self {
            Self::None => false,
            Self::Independent { share } => random.random::<f64>() < share,
            Self::GilbertElliott { enter, leave, loss_good, loss_bad } => {
                let step = if *bad { leave } else { enter };
                if random.random::<f64>() < step {
                    *bad = !*bad;
                }
                random.random::<f64>() < if *bad { loss_bad } else { loss_good }
            }
        }
    }
}
