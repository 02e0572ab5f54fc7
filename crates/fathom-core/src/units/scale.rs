//! Figures with the unit that suits their size.

/// A value in the first unit in which it has a handful of digits: two decimals below 100, none above. Each unit is `step`
/// of the one before.
pub(super) fn scaled(value: u64, step: f64, units: &[&str]) -> String {
    let mut value = value as f64;
    let mut units = units.iter().peekable();
    while let Some(unit) = units.next() {
        let decimals = if value < 99.995 { 2 } else { 0 };
        let figure = format!("{value:.decimals$}");
        // By the figure that is shown: 1,023.9 KiB would read 1024 KiB.
        if units.peek().is_none() || figure.parse::<f64>().is_ok_and(|shown| shown < step) {
            return format!("{} {unit}", figure.strip_suffix(".00").unwrap_or(&figure));
        }
        value /= step;
    }
    String::new()
}
