//! What a file says of the breaker, and of how it learns that its target is back.

use super::raw;
use super::{MS, Wrong, duration, ns, number};
use crate::policy::settings::{BreakerRule, RecoveryRule, Window};
use toml::Spanned;

pub(super) fn breaker(raw: &raw::Breaker) -> Result<BreakerRule, Wrong> {
    let base = BreakerRule::default();
    let window = match &raw.window {
        None => base.window,
        Some(at) => match *at.get_ref() {
            raw::Window::Count(n) if (1..=1_000_000).contains(&n) => Window::Count(n as u32),
            raw::Window::Time(ns) if ns >= MS => Window::Ns(ns),
            _ => {
                return Err((
                    at.span(),
                    "`window` is a number of tries from 1 on, or a duration from 1ms on".to_owned(),
                ));
            }
        },
    };
    let least = number(raw.least.as_ref(), "least", 1..=1_000_000)?;
    let holds = match window {
        Window::Count(n) => n,
        Window::Ns(_) => u32::MAX,
    };
    if let (Some(least), Some(at)) = (least, &raw.least)
        && least > holds
    {
        let message = format!(
            "`least` {least} is above the {holds} that `window` holds: the breaker would never open; lower it, or raise `window`"
        );
        return Err((at.span(), message));
    }
    let failures = raw.failures.as_ref().map_or(base.failures, |share| share.get_ref().0);
    if let Some(at) = &raw.failures
        && failures <= 0.0
    {
        return Err((
            at.span(),
            "`failures` of nothing would open the breaker at once; write it as in \"50%\"".to_owned(),
        ));
    }
    Ok(BreakerRule {
        window,
        least: least.unwrap_or(base.least.min(holds)),
        failures,
        open_ns: ns(raw.open.as_ref(), "open", MS)?.unwrap_or(base.open_ns),
        trials: number(raw.trials.as_ref(), "trials", 1..=1_000_000)?.unwrap_or(base.trials),
    })
}

pub(super) fn recovery(
    raw: &Spanned<raw::Table<raw::Recovery>>,
    breaker: Option<BreakerRule>,
) -> Result<RecoveryRule, Wrong> {
    let (base, keys) = (RecoveryRule::default(), raw.get_ref());
    let Some(breaker) = breaker else {
        let message = "[recovery] does nothing without a breaker, whose time it shortens; add [breaker], or leave it out";
        return Err((raw.span(), message.to_owned()));
    };
    let every_ns = ns(keys.every.as_ref(), "every", 10 * MS)?.unwrap_or(base.every_ns);
    let after = number(keys.after.as_ref(), "after", 1..=1_000)?.unwrap_or(base.after);
    let least_ns = every_ns.saturating_mul(after.into());
    if least_ns >= breaker.open_ns {
        let message = format!(
            "{after} checks, one every {}, are not over before the breaker's `open` {}: it tries by itself then; lower `every` or `after`, or raise `open`",
            duration(every_ns),
            duration(breaker.open_ns)
        );
        return Err((keys.every.as_ref().map_or_else(|| raw.span(), Spanned::span), message));
    }
    let timeout_ns = ns(keys.timeout.as_ref(), "timeout", MS)?.unwrap_or(base.timeout_ns);
    Ok(RecoveryRule { every_ns, after, timeout_ns })
}
